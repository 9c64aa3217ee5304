"""Activation checkpointing (Chen et al., 2016): a block keeps only its input, and is recomputed."""

from __future__ import annotations

from functools import partial

from torch import nn
from torch.utils.checkpoint import checkpoint

from torchdeck.distributed.recipe import RecipeError
from torchdeck.distributed.units import Blocks, blocks_of


def checkpoint_blocks(model: nn.Module, blocks: Blocks | None) -> None:
    """Recompute each block of `model` in backward, permanently.

    Only `forward` of the blocks is replaced. Names of parameters, and so checkpoints, stay the same, and
    hooks on a block (including FSDP's) run once around it and not again. Dropout draws the same values again,
    and autocast is restored. Call it before the model is wrapped by a strategy or compiled.

    Args:
        model: model of the recipe.
        blocks: the recipe's.

    Raises:
        RecipeError: the recipe names no blocks, or a block is not a module of the model.
    """
    chosen = [] if blocks is None else blocks_of(model, blocks)
    if not chosen:
        raise RecipeError(
            "training.activation_checkpointing is true, but the recipe has no function blocks(model) that "
            "returns modules: define it to return the modules to compute again in backward, or set "
            "training.activation_checkpointing = false"
        )
    for block in chosen:
        # set on the instance: a subclass would change pickles and `type(block)`
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
