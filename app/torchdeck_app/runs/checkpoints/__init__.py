"""The checkpoints of a run."""
