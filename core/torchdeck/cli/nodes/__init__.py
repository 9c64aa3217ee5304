"""`torchdeck nodes`."""
