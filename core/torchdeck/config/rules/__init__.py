"""Contradictions between values that are each right."""
