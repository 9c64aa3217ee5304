"""Checks before a start, and the start."""
