"""A rank's own file in a checkpoint: random state and local buffers."""

from __future__ import annotations

import hashlib
import importlib
import io
import random
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from torchdeck.contract.bounded_file import open_regular
from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.files.tensor_archive import check_archive
from torchdeck.distributed.checkpoints.peers import refusal
from torchdeck.distributed.checkpoints.tensors.training_tensors import TrainingTensors


def rank_file_name(rank: int) -> str:
    return f"rank_{rank:05d}.pt"


def render_rank_file(parts: TrainingTensors) -> bytes:
    """Return the current content of this rank's file."""
    file = io.BytesIO()
    torch.save({"rng": rng_state(), "buffers": parts.buffers()}, file)
    return file.getvalue()


def restore_rank(folder: Path, rank: int, parts: TrainingTensors) -> None:
    """Restore this rank's exact state, at the same world size.

    Raises:
        CheckpointError: the file is not a rank's.
    """
    state = read_rank_file(folder / rank_file_name(rank))
    parts.restore_buffers(state["buffers"])
    restore_rng(state["rng"])


def derive_rank(folder: Path, rank: int, world_size: int) -> None:
    """Derive fresh random state by a fixed rule, at another world size.

    Raises:
        CheckpointError: rank 0's file is not a rank's.
    """
    derive_rng(read_rank_file(folder / rank_file_name(0))["rng"], rank, world_size)


def read_rank_file(path: Path) -> dict[str, Any]:
    """Return a rank's state: `rng` as from `rng_state`, and `buffers` by name.

    Raises:
        CheckpointError: the file is not a rank's, or contains more than tensors, numbers and strings.
    """
    try:
        with open_regular(path) as file:
            check_archive(file)
            state = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        raise CheckpointError(f"{path} cannot be read: {refusal(error)}") from error
    if not (
        isinstance(state, dict) and isinstance(state.get("rng"), dict) and _are_tensors(state.get("buffers"))
    ):
        raise CheckpointError(f"{path} is not a rank's part of a checkpoint")
    return state


def _are_tensors(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(tensor, torch.Tensor) for tensor in value.values())


# Random number generators of one rank: Python's, numpy's global one, torch's, and the current CUDA device's.
#
# The state contains only tensors, numbers and strings, so that `torch.load(weights_only=True)` can read it.


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
