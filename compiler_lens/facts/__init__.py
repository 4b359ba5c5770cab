"""What a recording means: pure functions of `Recording`, without words, colours or torch."""
