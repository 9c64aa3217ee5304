"""Checkpoints that are either complete and verified, or absent.

Only `store` and its dependencies import torch.
"""
