"""Checkpoints that are either whole and verified or not there.

Only `store` and what it stands on import torch.
"""
