"""Builds and checks the recipe's components before anything depends on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.utils.data import IterableDataset

from torchdeck.distributed.batches import SizedDataset
from torchdeck.distributed.fsdp_units import checkpoint_blocks
from torchdeck.distributed.group.agreement import require_same
from torchdeck.distributed.group.process_group import ProcessGroup
from torchdeck.distributed.optimizers import keep_lr_ratios, make_optimizer
from torchdeck.distributed.rank_settings import RecipeSettings
from torchdeck.distributed.recipe_loading import Recipe, RecipeError
from torchdeck.distributed.seeding import seed_all
from torchdeck.distributed.strategies.base import DistributedStrategy
from torchdeck.distributed.trainer.callback import Callback
from torchdeck.distributed.trainer.ema import Ema
from torchdeck.distributed.trainer.initial_weights import load_initial_weights, take_initial_weights
from torchdeck.distributed.trainer.step import TrainingParts
from torchdeck.distributed.trainer.training_data import DataIdentity, data_identity


def build_model(recipe: Recipe, options: dict[str, Any]) -> nn.Module:
    """Return the recipe's model, with the initial weights that `init_from` in its options names.

    Raises:
        RecipeError: it is not a module, has no trainable parameters, or `init_from` has no weights of it.
    """
    options = dict(options)
    start = take_initial_weights(options)
    model = recipe.build_model(options)
    if not isinstance(model, nn.Module):
        raise RecipeError(
            f"build_model of recipe {recipe.name} returned {type(model).__name__}: return a torch.nn.Module"
        )
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise RecipeError(
            f"the model of recipe {recipe.name} has no parameters to train: expected a module with at least "
            "one parameter that requires a gradient (requires_grad)"
        )
    if start is not None:
        load_initial_weights(model, start, recipe.init_names)
    return model


def recipe_callbacks(recipe: Recipe, settings: RecipeSettings) -> list[Callback]:
    """Return the recipe's own callbacks on this rank; empty if it has no function for them.

    Raises:
        RecipeError: its function returned something else.
    """
    if recipe.callbacks is None:
        return []
    returned: Any = recipe.callbacks(settings)
    callbacks = list(returned) if isinstance(returned, Iterable) else [returned]
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise RecipeError(
                f"callbacks(settings) of recipe {recipe.name} returned {type(callback).__name__}: return a "
                "list of objects of a class derived from torchdeck.distributed.Callback"
            )
    return callbacks


@dataclass(frozen=True)
class Datasets:
    """Data sets of a training."""

    training: SizedDataset
    heldout: SizedDataset | None
    identity: DataIdentity
    """Identity of the training data."""


def build_datasets(recipe: Recipe, settings: RecipeSettings, group: ProcessGroup) -> Datasets:
    """Build the recipe's data, the same on every rank; validation data only if it is used for evaluation.

    Raises:
        RecipeError: it is not a map-style data set, is empty, or its size differs between ranks; or patience
            needs evaluations, and there is no validation data.
        AgreementError: it differs otherwise.
    """
    training = settings.training
    options = recipe.options_of_data(settings.model, settings.data)
    data = build_training_data(recipe, options, group, training.seed)
    evaluated = training.eval_every or training.eval_every_epochs
    heldout = build_heldout_data(recipe, options, group, training.seed) if evaluated else None
    if heldout is None and training.patience is not None:
        raise RecipeError(
            f"patience is {training.patience}, and there is no validation data whose loss could stop "
            "falling: give some, or leave out patience"
        )
    identity = data_identity(recipe, options, data)
    require_same(group, {"training data": identity.to_json()})
    return Datasets(data, heldout, identity)


def build_training_data(
    recipe: Recipe, options: dict[str, Any], group: ProcessGroup, seed: int
) -> SizedDataset:
    """Build the recipe's training data, the same on every rank.

    Raises:
        RecipeError: it is not a map-style data set, is empty, or its size differs between ranks.
    """
    data = _build_data(recipe, options, "train", group, seed)
    if data is None or len(data) == 0:
        raise RecipeError(
            f'the training data of recipe {recipe.name} is empty: build_data(options, "train") must return '
            "a data set with at least one sample; look at the paths in [data]"
        )
    return data


def build_heldout_data(
    recipe: Recipe, options: dict[str, Any], group: ProcessGroup, seed: int
) -> SizedDataset | None:
    """Build the recipe's validation data, the same on every rank; None if there is none.

    Raises:
        RecipeError: it is not a map-style data set, or its size differs between ranks.
    """
    data = _build_data(recipe, options, "heldout", group, seed)
    return data if data is not None and len(data) > 0 else None


def _build_data(
    recipe: Recipe, options: dict[str, Any], split: str, group: ProcessGroup, seed: int
) -> SizedDataset | None:
    # before each split: ranks, attempts and both halves of a random split must draw the same
    seed_all(seed)
    data = recipe.build_data(dict(options), split)
    size = 0 if data is None else _checked_size(data, recipe, split)
    smallest, negative_largest = group.minimum([size, -size])
    if smallest != -negative_largest:
        raise RecipeError(
            f"the {split} data has {smallest:.0f} samples on one rank and {-negative_largest:.0f} on "
            "another: all ranks must read the same data, which is then divided among them"
        )
    return data  # type: ignore[no-any-return]  # has what a SizedDataset has


def _checked_size(data: Any, recipe: Recipe, split: str) -> int:
    # an iterable data set may have a length, and inherits a __getitem__ that only raises
    iterable = isinstance(data, IterableDataset)
    if iterable or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        raise RecipeError(
            f'build_data(options, "{split}") of recipe {recipe.name} returned {type(data).__name__}: '
            "return a map-style data set, which has __len__ and __getitem__"
        )
    return len(data)


def loader_workers(data: dict[str, Any]) -> int:
    """Return the number of data-loading processes per rank: `workers` in [data]. Default: 0.

    Raises:
        RecipeError: it is not a number of at least 0.
    """
    workers = data.get("workers", 0)
    if type(workers) is not int or workers < 0:
        raise RecipeError(f"workers is {workers!r}", fix="expected a whole number from 0")
    return workers


# Builds the components of an optimizer step from settings and a recipe.


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
        loss=recipe.loss,
        ema=None if decay is None else Ema(model, strategy, decay),
    )
