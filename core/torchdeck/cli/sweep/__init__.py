"""`torchdeck sweep`."""
