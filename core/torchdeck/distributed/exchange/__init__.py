"""Checkpoints in other layouts: one file for other tools, and what other tools wrote."""
