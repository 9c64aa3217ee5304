"""Check for the weights that a recipe's model starts from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from torchdeck.config.schema import RunConfig
from torchdeck.contract.checkpoints.listing import newest_complete
from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.plan.check import Check, failed, ok

_NAME = "initial weights"


def check_initial_weights(config: RunConfig, node: str) -> Iterator[Check]:
    """Check model.init_from; yield nothing for a run that resumes from a checkpoint, which does not read it.

    Ranks, which have torch, check the content.
    """
    start = config.model.get("init_from")
    if config.run.recipe is None or not isinstance(start, str) or resumes(config):
        return
    path = Path(start)
    fix = "name a checkpoint, an export, or a .safetensors or .pt file, or no init_from"
    if not path.exists():
        yield failed(_NAME, node, f"model.init_from {path} does not exist", fix)
    elif not os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0)):
        yield failed(
            _NAME, node, f"model.init_from {path} cannot be read: permission denied", "change its mode"
        )
    elif path.is_dir() and not any(path.iterdir()):
        yield failed(_NAME, node, f"model.init_from {path} is an empty folder", fix)
    else:
        yield ok(_NAME, node, f"weights in {path}")


def resumes(config: RunConfig) -> bool:
    """Return whether the run continues from a checkpoint, and so reads no initial weights."""
    resume, directory = config.checkpoint.resume, config.checkpoint.directory
    if resume != "auto" or directory is None:
        return resume not in ("auto", "never")
    try:
        return newest_complete(Path(directory)) is not None
    except CheckpointError:
        return False
