"""Checkpoints of runs: verified, brought here, exported and deleted."""
