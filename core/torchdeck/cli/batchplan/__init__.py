"""`torchdeck batchplan`."""
