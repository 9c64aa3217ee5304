"""Comparison of ranks over time."""
