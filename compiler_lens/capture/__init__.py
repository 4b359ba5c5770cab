"""The rooms that listen to torch: what happens in this process, as events."""
