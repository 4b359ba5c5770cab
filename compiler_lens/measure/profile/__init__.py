"""How long every launch of every kernel takes, in real calls of the user's model."""
