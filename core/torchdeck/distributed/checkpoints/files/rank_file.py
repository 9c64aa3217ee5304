"""A rank's own file in a checkpoint: random state and local buffers."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch

from torchdeck.contract.bounded_file import open_regular
from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.files.tensor_archive import check_archive
from torchdeck.distributed.checkpoints.refusal import refusal
from torchdeck.distributed.checkpoints.tensors.rng import derive_rng, restore_rng, rng_state
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
