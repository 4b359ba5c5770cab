"""The only rooms that know torch: what happens in this process, as events."""
