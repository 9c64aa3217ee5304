"""`torchdeck plan`."""
