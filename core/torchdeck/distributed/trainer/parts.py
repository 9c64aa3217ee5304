"""Builds the components of an optimizer step from settings and a recipe."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.optim import Optimizer

from torchdeck.distributed.activation_checkpointing import checkpoint_blocks
from torchdeck.distributed.optimizers import keep_lr_ratios, make_optimizer
from torchdeck.distributed.recipe import Recipe, RecipeError
from torchdeck.distributed.seeding import seed_all
from torchdeck.distributed.settings import RecipeSettings
from torchdeck.distributed.strategies.base import DistributedStrategy
from torchdeck.distributed.trainer.ema import Ema
from torchdeck.distributed.trainer.setup import build_model
from torchdeck.distributed.trainer.step import TrainingParts


def _optimizer(settings: RecipeSettings, recipe: Recipe, model: nn.Module) -> Optimizer:
    if recipe.build_optimizer is None:
        return make_optimizer(model, settings.training)
    optimizer: Any = recipe.build_optimizer(model)
    if not isinstance(optimizer, Optimizer):
        raise RecipeError(
            f"build_optimizer of recipe {recipe.name} returned {type(optimizer).__name__}: return a "
            "torch.optim.Optimizer over the model's parameters"
        )
    keep_lr_ratios(optimizer)
    return optimizer


def build_parts(settings: RecipeSettings, recipe: Recipe, strategy: DistributedStrategy) -> TrainingParts:
    """Build model, strategy wrapper, optimizer and scaler; every rank starts from the same weights.

    Afterwards random draws (dropout) differ between ranks.

    Raises:
        RecipeError: the recipe's model cannot be trained, or not by this strategy, or its optimizer is not
            one.
    """
    seed = settings.training.seed
    seed_all(seed)
    model = build_model(recipe, settings.model)
    if settings.training.activation_checkpointing:
        checkpoint_blocks(model, recipe.blocks)
    wrapped = strategy.wrap_model(model, recipe.blocks)
    if settings.training.compile:
        wrapped.compile()  # in place, so names in checkpoints stay the same
    seed_all(seed, stream=1 + strategy.rank)
    optimizer = strategy.prepare_optimizer(wrapped, _optimizer(settings, recipe, model))
    decay = settings.training.ema
    return TrainingParts(
        strategy=strategy,
        model=model,
        wrapped=wrapped,
        optimizer=optimizer,
        scaler=strategy.precision.make_scaler(),
        loss=recipe.loss,
        ema=None if decay is None else Ema(model, strategy, decay),
    )
