"""Activation checkpointing (Chen et al., 2016): a block keeps its input alone, and is computed again."""

from __future__ import annotations

from functools import partial

from torch import nn
from torch.utils.checkpoint import checkpoint

from torchdeck.distributed.recipe import RecipeError
from torchdeck.distributed.units import Blocks, blocks_of


def checkpoint_blocks(model: nn.Module, blocks: Blocks | None) -> None:
    """Let each block of `model` be computed again in backward, for good.

    Only `forward` of the blocks is replaced: names of parameters, and so checkpoints, stay what they are, and
    hooks on a block (FSDP's among them) run once around it and not again. What dropout drew is drawn again,
    and autocast is as it was. Call it before the model is wrapped by a strategy or compiled.

    Args:
        model: of the recipe.
        blocks: the recipe's.

    Raises:
        RecipeError: the recipe names no blocks, or what is no module of the model.
    """
    chosen = [] if blocks is None else blocks_of(model, blocks)
    if not chosen:
        raise RecipeError(
            "training.activation_checkpointing is true, but the recipe has no function blocks(model) that "
            "returns modules: define it to return the modules to compute again in backward, or set "
            "training.activation_checkpointing = false"
        )
    for block in chosen:
        # set on the instance: a class of its own would change what pickles and `type(block)` say
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
