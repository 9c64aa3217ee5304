"""Bringing here what a run has made on its nodes: checkpoints, verified, and what else lies in its folder."""
