"""Whatever runs the user's model: profiles of kernels, comparisons of modes, trials of settings."""
