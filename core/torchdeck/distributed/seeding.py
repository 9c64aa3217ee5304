"""Random numbers that depend only on the seed and the rank."""

from __future__ import annotations

import os
import random

import numpy as np
import torch

_WORD = 1 << 63
_STRIDE = 1_000_003


def seed_all(seed: int, stream: int = 0) -> None:
    """Seed Python's, numpy's and torch's generators; each `stream` of a seed is independent."""
    mixed = (seed + _STRIDE * stream) % _WORD
    random.seed(mixed)
    np.random.seed(mixed % (1 << 32))
    torch.manual_seed(mixed)


def make_deterministic() -> None:
    """Make torch use only deterministic kernels; an operation without one raises."""
    # cuBLAS reads it when its first handle is created
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(mode=True)
    torch.backends.cudnn.benchmark = False
