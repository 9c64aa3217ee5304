"""Checkpoints made of what others wrote: weights in one file, or a folder of DeepSpeed's."""

from __future__ import annotations

import hashlib
import random
import time
from pathlib import Path
from typing import Any

import torch

from torchdeck.contract.bounded_file import open_regular
from torchdeck.contract.checkpoints.manifest import CheckpointError, Manifest
from torchdeck.distributed.checkpoints.exchange.safetensors_file import SafetensorsFile
from torchdeck.distributed.checkpoints.exchange.whole import (
    InMemory,
    Renamed,
    Tensors,
    WholeCheckpoint,
    listing_of_specs,
)
from torchdeck.distributed.checkpoints.files.deepspeed_import import read_deepspeed
from torchdeck.distributed.checkpoints.files.refusal import refusal
from torchdeck.distributed.checkpoints.files.tensor_archive import check_archive
from torchdeck.distributed.checkpoints.files.trainer_file import TrainerFile
from torchdeck.distributed.checkpoints.tensors.model_state import bare_name, model_fingerprint
from torchdeck.distributed.checkpoints.tensors.snapshot import MODEL_PREFIX

WEIGHTS_ONLY = "it holds weights only: an optimizer starts afresh, and random state is derived from the file"
_INSIDE = ("model", "state_dict", "model_state_dict", "module")
"""Where programs keep the weights in what they save."""


def open_weights(path: Path, world_size: int) -> WholeCheckpoint:
    """The weights in a `torch.save` file or a safetensors file, as a checkpoint before the first step.

    A pickle is read with `weights_only`: whatever is in it, nothing of it is executed.

    Args:
        path: the file.
        world_size: ranks that shall find a random state in the checkpoint.

    Raises:
        CheckpointError: it holds no weights, or more than weights.
    """
    weights = SafetensorsFile(path) if path.suffix == ".safetensors" else InMemory(_from_pickle(path))
    return _of_weights(weights, path.name, world_size)


def open_deepspeed(folder: Path, world_size: int, *, trusted: bool) -> WholeCheckpoint:
    """The fp32 weights in a folder that DeepSpeed wrote, as a checkpoint before the first step.

    Raises:
        CheckpointError: it is not trusted, and its pickles were not touched; or it cannot be read.
    """
    weights = InMemory(read_deepspeed(folder, trusted=trusted))
    return _of_weights(weights, folder.name, world_size)


def _from_pickle(path: Path) -> dict[str, torch.Tensor]:
    try:
        with open_regular(path) as file:
            check_archive(file)
        value = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:
        raise CheckpointError(f"{path} cannot be read as weights alone: {refusal(error)}") from error
    inside = [value[key] for key in _INSIDE if isinstance(value, dict) and isinstance(value.get(key), dict)]
    weights = inside[0] if inside else value
    if not isinstance(weights, dict) or not weights:
        raise CheckpointError(f"{path} holds no weights: a {type(value).__name__}")
    for name, tensor in weights.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise CheckpointError(
                f"{path}: {name!r} is a {type(tensor).__name__}, not a tensor; save model.state_dict() alone"
            )
    if all(name.startswith("module.") for name in weights):  # saved inside DistributedDataParallel
        return {name.removeprefix("module."): tensor for name, tensor in weights.items()}
    return weights


def _of_weights(weights: Tensors, source: str, world_size: int) -> WholeCheckpoint:
    tensors = Renamed(weights, {MODEL_PREFIX + bare_name(name): name for name in weights.specs})
    listing = listing_of_specs(
        {name.removeprefix(MODEL_PREFIX): spec for name, spec in tensors.specs.items()}
    )
    trainer = TrainerFile(
        step=0, position={}, scheduler={}, scaler={}, extra={}, model=listing, optimizers=[]
    )
    fingerprint = model_fingerprint(listing)
    manifest = Manifest(
        step=0,
        world_size=world_size,
        strategy="imported",
        run_id=source,
        attempt=1,
        created=time.time(),
        seconds=0.0,
        position={},
        model_fingerprint=fingerprint,
        files={},
    )
    ranks = [
        {"rng": derived_rng(f"{fingerprint}/{rank}/{world_size}"), "buffers": {}}
        for rank in range(world_size)
    ]
    return WholeCheckpoint(manifest, trainer, tensors, ranks, WEIGHTS_ONLY)


def derived_rng(text: str) -> dict[str, Any]:
    """A random state as of `rng.rng_state`, seeded by the first 8 bytes of SHA-256 over `text`."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    version, words, gauss = random.Random(seed).getstate()  # noqa: S311 - a training's, not a secret
    state = torch.Generator().manual_seed(seed % (1 << 63)).get_state()
    return {"python": [version, list(words), gauss], "torch": state, "numpy": None, "cuda": None}
