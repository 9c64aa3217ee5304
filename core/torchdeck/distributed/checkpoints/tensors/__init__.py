"""Collects and restores the parts of a training that belong in a checkpoint."""
