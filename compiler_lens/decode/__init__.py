"""From events to values: a reader for each kind of event, and what joins values. Reads torch's texts, never torch."""
