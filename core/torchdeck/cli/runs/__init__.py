"""`torchdeck runs`, and watching a run."""
