"""A checkpoint's content as state dicts, for code that loads them itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchdeck.contract.checkpoints.choose import find_latest_checkpoint
from torchdeck.contract.checkpoints.manifest import MANIFEST_NAME, CheckpointError
from torchdeck.distributed.checkpoints.snapshot import MODEL_PREFIX
from torchdeck.distributed.checkpoints.tensors.optimizer_state import state_key
from torchdeck.distributed.exchange.exchanging import open_source
from torchdeck.distributed.exchange.source_checkpoint import Tensors


def saved_state(path: Path) -> dict[str, Any]:
    """Return the extra values of a checkpoint, and `model` and `optimizer`: whole state dicts on the CPU.

    Raises:
        CheckpointError: there is none in `path`, or it is damaged.
    """
    folder = path if (path / MANIFEST_NAME).exists() else find_latest_checkpoint(path)
    if folder is None:
        raise CheckpointError(f"there is no checkpoint in {path}")
    whole = open_source(folder, 1, trusted=False, progress=lambda *_: None)
    model = {
        name.removeprefix(MODEL_PREFIX): whole.tensors.read(name)
        for name in whole.tensors.specs
        if name.startswith(MODEL_PREFIX)
    }
    optimizers = [
        _optimizer_state(index, described, whole.tensors)
        for index, described in enumerate(whole.trainer.optimizers)
    ]
    optimizer = optimizers[0] if len(optimizers) == 1 else optimizers
    return {**whole.trainer.extra, "model": model, "optimizer": optimizer}


def _optimizer_state(index: int, described: Mapping[str, Any], tensors: Tensors) -> dict[str, Any]:
    """Return the state dict of one optimizer, with its parameters numbered by group."""
    order = [name for group in described["groups"] for name in group["params"]]
    numbers = iter(range(len(order)))
    return {
        "state": {
            number: {
                key: tensors.read(state_key(index, name, key)) if "shape" in spec else spec["value"]
                for key, spec in described["state"][name].items()
            }
            for number, name in enumerate(order)
            if name in described["state"]
        },
        "param_groups": [
            {**group["options"], "params": [next(numbers) for _ in group["params"]]}
            for group in described["groups"]
        ],
    }
