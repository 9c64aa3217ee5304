"""Weights from a checkpoint written by DeepSpeed itself: pickles, which a Torchdeck run never reads.

Its folder, as `engine.save_checkpoint` leaves it: `latest`, which names a sibling folder containing
`mp_rank_…_model_states.pt` (or `zero_pp_rank_…_model_states.pt` of stage 3) and `…_optim_states.pt`.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import torch

from torchdeck.contract.bounded_file import read_bounded
from torchdeck.contract.checkpoints.manifest import CheckpointError

_STATES = "*_model_states.pt"
_LONGEST_NAME = 4096
"""Bytes."""


def is_deepspeed(folder: Path) -> bool:
    """Return whether `folder` appears to be a DeepSpeed save folder, or one of its step folders."""
    return any(folder.glob(_STATES)) or any(folder.glob(f"*/{_STATES}"))


def read_deepspeed(folder: Path, *, trusted: bool) -> dict[str, torch.Tensor]:
    """Return the full fp32 weights of a ZeRO 1, 2 or 3 checkpoint, by name and on the CPU.

    DeepSpeed's own code assembles them from its ranks' partitions.

    Args:
        folder: DeepSpeed's save folder, of which the newest step is read; or the folder of one step.
        trusted: the user knows who wrote it: reading executes code in it.

    Raises:
        CheckpointError: it is not trusted, DeepSpeed is not installed, or nothing can be read.
    """
    folder = folder.absolute()
    if not is_deepspeed(folder):
        raise CheckpointError(f"{folder} is no checkpoint of DeepSpeed's: it has no {_STATES}")
    if not trusted:
        raise CheckpointError(
            f"{folder} was written by DeepSpeed: its .pt files are Python pickles, which can run any code "
            "when they are read; if they come from your own runs or from someone you trust, say --trust"
        )
    if importlib.util.find_spec("deepspeed") is None:
        raise CheckpointError(
            f"reading {folder} takes DeepSpeed, which {sys.executable} does not have: "
            "`pip install 'torchdeck[deepspeed]'` there"
        )
    try:
        # it prints progress to stdout
        with contextlib.redirect_stdout(sys.stderr):
            weights = _consolidate(*_place(folder))
    except CheckpointError:
        raise
    except Exception as error:
        raise CheckpointError(f"{folder} cannot be read: {type(error).__name__}: {error}") from error
    return {name: tensor.detach().to("cpu", torch.float32).contiguous() for name, tensor in weights.items()}


def _place(folder: Path) -> tuple[Path, str]:
    """Return DeepSpeed's save folder, and the name of a step in it."""
    if any(folder.glob(_STATES)):
        return folder.parent, folder.name
    latest = folder / "latest"
    if not latest.exists():
        raise CheckpointError(f"{folder} has no file latest that names a step: give the folder of one step")
    try:
        step = read_bounded(latest, _LONGEST_NAME).decode("utf-8").strip()
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{latest} does not name a step: {error}") from None
    if Path(step).name != step or not (folder / step).is_dir():
        raise CheckpointError(f"{latest} names {step!r}, and there is no such folder in {folder}")
    return folder, step


def _consolidate(folder: Path, step: str) -> dict[str, torch.Tensor]:
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    reader: Any = importlib.import_module("deepspeed.utils.zero_to_fp32")
    weights: dict[str, torch.Tensor] = reader.get_fp32_state_dict_from_zero_checkpoint(str(folder), step)
    return weights
