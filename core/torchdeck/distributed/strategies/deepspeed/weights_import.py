"""Weights out of a checkpoint that DeepSpeed wrote by itself: pickles, which a run of ours never reads.

Its folder, as `engine.save_checkpoint` leaves it: `latest`, with the name of a folder beside it, in which lie
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
    """Whether `folder` looks like one that DeepSpeed saved into, or like one of its steps."""
    return any(folder.glob(_STATES)) or any(folder.glob(f"*/{_STATES}"))


def read_deepspeed(folder: Path, *, trusted: bool) -> dict[str, torch.Tensor]:
    """The fp32 weights of a checkpoint of ZeRO 1, 2 or 3, by name, whole and on the CPU.

    DeepSpeed's own code puts them together out of its ranks' partitions.

    Args:
        folder: where DeepSpeed saved, the newest step is then read; or the folder of one step.
        trusted: the user knows who wrote it: reading executes what is in it.

    Raises:
        CheckpointError: it is not trusted, DeepSpeed is not installed, or there is nothing to be read.
    """
    folder = folder.absolute()
    if not is_deepspeed(folder):
        raise CheckpointError(f"{folder} is no checkpoint of DeepSpeed's: it has no {_STATES}")
    if not trusted:
        raise CheckpointError(
            f"{folder} was written by DeepSpeed: its .pt files are Python pickles, which can run any code "
            "when they are read; if they come from your own runs or from somebody you trust, say --trust"
        )
    if importlib.util.find_spec("deepspeed") is None:
        raise CheckpointError(
            f"reading {folder} takes DeepSpeed, which {sys.executable} does not have: "
            "`pip install 'torchdeck[deepspeed]'` there"
        )
    try:
        # it tells on stdout how far it is
        with contextlib.redirect_stdout(sys.stderr):
            weights = _consolidate(*_place(folder))
    except CheckpointError:
        raise
    except Exception as error:
        raise CheckpointError(f"{folder} cannot be read: {type(error).__name__}: {error}") from error
    return {name: tensor.detach().to("cpu", torch.float32).contiguous() for name, tensor in weights.items()}


def _place(folder: Path) -> tuple[Path, str]:
    """The folder DeepSpeed saved into, and the name of a step in it."""
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
