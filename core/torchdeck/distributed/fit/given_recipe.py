"""Model, loss and data that are given in memory, as the recipe that the trainer takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from torch import nn

from torchdeck.distributed.batches import Collate
from torchdeck.distributed.fit import datasets
from torchdeck.distributed.fit.optimizers import OwnOptimizer
from torchdeck.distributed.units import Blocks
from torchdeck.recipes.loader import Recipe


def given_recipe(
    model: nn.Module,
    loss: Callable[[Any, Any], Any],
    blocks: Blocks | None,
    collate: Collate | None,
    optimizer: OwnOptimizer | None,
) -> Recipe:
    """A recipe of no data yet; `loss` as `make_loss` gives it."""
    return Recipe(
        name="given to DistributedTrainer",
        build_model=lambda _: model,
        build_data=lambda _, __: None,
        loss=loss,
        blocks=blocks,
        collate=collate or datasets.collate,
        build_optimizer=None if optimizer is None else optimizer.build,
    )


def with_data(recipe: Recipe, training: Any, validation: Any) -> Recipe:
    """The recipe for one call of fit; `validation` is None where there is none."""
    return dataclasses.replace(recipe, build_data=lambda _, part: training if part == "train" else validation)
