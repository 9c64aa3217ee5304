"""Random number generators of one rank: Python's, numpy's global one, torch's, and the current CUDA device's.

The state contains only tensors, numbers and strings, so that `torch.load(weights_only=True)` can read it.
"""

from __future__ import annotations

import hashlib
import importlib
import random
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import torch

from torchdeck.contract.checkpoints.manifest import CheckpointError


def rng_state() -> dict[str, Any]:
    """Return the state of this process's generators."""
    version, words, gauss = random.getstate()
    state: dict[str, Any] = {
        "python": [version, list(words), gauss],
        "torch": torch.get_rng_state(),
        "numpy": None,
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
    }
    numpy = _numpy()
    if numpy is not None:
        kind, keys, position, has_gauss, cached = numpy.random.get_state()
        state["numpy"] = [str(kind), keys.tolist(), int(position), int(has_gauss), float(cached)]
    return state


def restore_rng(state: Mapping[str, Any]) -> None:
    """Restore the generators.

    Raises:
        CheckpointError: `state` is not from `rng_state`.
    """
    try:
        version, words, gauss = state["python"]
        random.setstate((version, tuple(words), gauss))
        torch.set_rng_state(state["torch"])
        if state["cuda"] is not None and torch.cuda.is_available():
            torch.cuda.set_rng_state(state["cuda"])
        numpy = _numpy()
        if state["numpy"] is not None and numpy is not None:
            kind, keys, position, has_gauss, cached = state["numpy"]
            numpy.random.set_state((kind, numpy.array(keys, dtype=numpy.uint32), position, has_gauss, cached))
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"the saved random state cannot be used: {error}") from error


def derive_rng(first_rank: Mapping[str, Any], rank: int, world_size: int) -> None:
    """Seed all generators from a checkpoint of another world size.

    The seed is the first 8 bytes of SHA-256 over rank 0's torch state in the checkpoint, this rank and this
    world size: the same every time, different for every rank, and not a continuation of any saved stream.
    """
    digest = hashlib.sha256(bytes(first_rank["torch"].tolist()))
    digest.update(f"/{rank}/{world_size}".encode())
    seed = int.from_bytes(digest.digest()[:8], "big")
    random.seed(seed)
    torch.manual_seed(seed)
    numpy = _numpy()
    if numpy is not None:
        numpy.random.seed(seed % (1 << 32))


def _numpy() -> ModuleType | None:
    try:
        return importlib.import_module("numpy")
    except ModuleNotFoundError:  # torch runs without it
        return None
