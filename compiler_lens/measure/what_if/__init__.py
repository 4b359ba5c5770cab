"""Settings of torch.compile that could matter, tried on the user's model."""
