"""`trainer.json`: everything of a checkpoint that is not a tensor."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchdeck.contract.bounded_json import parse_json
from torchdeck.contract.byte_size import size
from torchdeck.contract.checkpoints.manifest import CheckpointError, read_document
from torchdeck.distributed.checkpoints.tensors.model_state import Listing, listing_from_json, listing_to_json

TRAINER_NAME = "trainer.json"
_VERSION = 1
_LARGEST = 96 << 20
"""Maximum bytes of the file; that of a model with a hundred thousand tensors has a tenth."""
_DIMENSIONS = 64
"""Maximum dimensions of a torch tensor; an unbounded product of large numbers would take too long."""
_PARTS = ("position", "scheduler", "scaler", "extra")


@dataclass(frozen=True)
class TrainerFile:
    """Content of `trainer.json`."""

    step: int
    position: dict[str, Any]
    scheduler: dict[str, Any]
    scaler: dict[str, Any]
    extra: dict[str, Any]
    model: Listing
    optimizers: list[dict[str, Any]]
    """As returned by `optimizer_state.describe_optimizers`."""

    def render(self) -> bytes:
        """Return the file's content.

        Raises:
            CheckpointError: a part contains something that JSON cannot round-trip; the message names it.
        """
        for part in _PARTS:
            _check_json(part, getattr(self, part))
        value = {
            "v": _VERSION,
            "step": self.step,
            **{part: getattr(self, part) for part in _PARTS},
            "model": listing_to_json(self.model),
            "optimizers": self.optimizers,
        }
        return json.dumps(value, ensure_ascii=False).encode("utf-8")

    def check_sizes(self, available: int) -> None:
        """Reject tensors that cannot be in files of `available` bytes, before allocating memory for them.

        Raises:
            CheckpointError: a tensor of the model or of an optimizer's state has more elements than there are
                bytes, or is not described as one; the message names it.
        """
        for name, shape in self._shapes():
            possible = isinstance(shape, (list, tuple)) and len(shape) <= _DIMENSIONS
            possible = possible and all(type(size) is int and size >= 0 for size in shape)
            if not possible or math.prod(shape) > available:
                shown = repr(list(shape) if isinstance(shape, tuple) else shape)[:200]
                raise CheckpointError(f"{name} cannot have the shape {shown} in {size(available)} of files")

    def _shapes(self) -> list[tuple[str, Any]]:
        """Return the shapes of every tensor of the model and of the optimizers' state, by name."""
        shapes: list[tuple[str, Any]] = [(name, shape) for name, (shape, _) in self.model.items()]
        try:
            for optimizer in self.optimizers:
                for name, state in optimizer["state"].items():
                    shapes += [
                        (f"{key} of {name}", spec["shape"]) for key, spec in state.items() if "shape" in spec
                    ]
        except (AttributeError, KeyError, TypeError) as error:
            raise CheckpointError(f"the description of the optimizers' state is damaged: {error}") from error
        return shapes


def read_trainer_file(folder: Path, name: str = TRAINER_NAME) -> TrainerFile:
    """Read the trainer file of a checkpoint whose hashes were checked.

    Args:
        folder: folder of the checkpoint.
        name: name of the file in it.

    Raises:
        CheckpointError: it is not one, or is from a newer Torchdeck.
    """
    path = folder / name
    try:
        value = parse_json(read_document(path, "trainer state"), limit=_LARGEST, python_numbers=True)
        version = int(value["v"])
        if version > _VERSION:
            raise CheckpointError(
                f"{path} was written by a newer Torchdeck (format {version}, this one reads {_VERSION}): "
                "update Torchdeck to use this checkpoint"
            )
        return TrainerFile(
            step=int(value["step"]),
            **{part: dict(value[part]) for part in _PARTS},
            model=listing_from_json(value["model"]),
            optimizers=list(value["optimizers"]),
        )
    except (OSError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise CheckpointError(f"{path} is not a checkpoint's trainer state: {error}") from error


def _check_json(path: str, value: Any) -> None:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise CheckpointError(f"{path} has the key {key!r}; keys of saved state must be texts")
            _check_json(f"{path}.{key}", item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_json(f"{path}[{index}]", item)
    elif not (value is None or isinstance(value, (str, int, float, bool))):
        raise CheckpointError(
            f"{path} is {value!r}; saved state holds numbers, texts, lists and objects with text keys only"
        )
