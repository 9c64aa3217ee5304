"""`torchdeck queue`."""
