"""Contradictions between individually valid values."""
