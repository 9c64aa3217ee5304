"""Initial weights of a model: from a checkpoint, or from a file made from one."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from torchdeck.distributed.recipe import RecipeError
from torchdeck.environment import RunContext


def load_initial_weights(model: nn.Module, start: str) -> None:
    """Fill the parameters of `model` from `start`, which is not read if its values would not be used.

    They are not used in a trace, whose tensors have no values, and in a run that resumes from a checkpoint of
    its own: that has all weights, and `start` may be gone by then. Each rank reads by itself, as there is no
    strategy yet that could share the work.

    Args:
        model: on the CPU, as it was built.
        start: folder of a checkpoint, whose files are hashed first, or a file of weights (.safetensors).

    Raises:
        RecipeError: it cannot be read, is damaged, or is of another model; the message names a tensor.
    """
    traced = type(torch.empty(0)) is not Tensor
    if traced or RunContext.from_env().resume is not None:
        return
    # torchdeck.distributed imports the recipes
    from torchdeck.contract.checkpoints.manifest import CheckpointError
    from torchdeck.distributed.checkpoints.snapshot import MODEL_PREFIX
    from torchdeck.distributed.exchange.exchanging import open_source

    try:
        found = open_source(Path(start), 1, trusted=False, progress=lambda *_: None).tensors
        for name, parameter in model.named_parameters():
            spec = found.specs.get(MODEL_PREFIX + name)
            _check_same(start, name, tuple(parameter.shape), None if spec is None else spec.shape)
            with torch.no_grad():
                parameter.copy_(found.read(MODEL_PREFIX + name))
    except (CheckpointError, OSError) as error:
        raise RecipeError(f"model.init_from {start} cannot be read: {error}") from error


def _check_same(start: str, name: str, wanted: tuple[int, ...], found: tuple[int, ...] | None) -> None:
    if found is None:
        raise RecipeError(f"model.init_from {start} is of another model: it has no {name}")
    if found != wanted:
        raise RecipeError(
            f"model.init_from {start} is of another model: {name} is {found} there and {wanted} here; give "
            "[model] the sizes it was trained with"
        )
