"""Checkpoints in other layouts: one file for other tools, and files that other tools wrote."""
