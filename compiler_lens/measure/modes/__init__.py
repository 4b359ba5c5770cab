"""Modes of torch.compile, measured on a real model."""
