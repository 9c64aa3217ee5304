"""The checks before a start, and the start."""
