"""Selection of FSDP units: the modules that the strategy shards one by one, and the tracer marks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

from torch import nn
from torch.utils.checkpoint import checkpoint

from torchdeck.distributed.rank_settings import FsdpSettings
from torchdeck.distributed.recipe_loading import RecipeError

Blocks = Callable[[nn.Module], Iterable[nn.Module]]
"""A recipe's `blocks`: function from the model to the modules that are each sharded as one unit."""


def units_of(model: nn.Module, blocks: Blocks | None, options: FsdpSettings) -> list[nn.Module]:
    """Return the modules to shard one by one as `options.wrap` specifies; not `model`, which holds the rest.

    Raises:
        RecipeError: blocks are needed and the recipe has none, or a block is not a module of the model.
    """
    if options.wrap == "size":
        return units_by_size(model, options.min_params)
    if blocks is None:
        raise RecipeError(
            'distributed.fsdp.wrap is "block", and there are no blocks: give them (a recipe\'s function '
            "blocks(model), or wrap_model(model, blocks) in a script), or set "
            'distributed.fsdp.wrap = "size"'
        )
    return blocks_of(model, blocks)


def blocks_of(model: nn.Module, blocks: Blocks) -> list[nn.Module]:
    """Return the modules that the recipe's `blocks` names, each once, inner ones first; without `model`
    itself.

    Raises:
        RecipeError: one of them is not a module of the model, or a container that is never called.
    """
    units = list({id(unit): unit for unit in blocks(model)}.values())
    inside = {id(module) for module in model.modules()}
    for unit in units:
        if id(unit) not in inside:
            raise RecipeError(
                f"blocks(model) returned {type(unit).__name__}, which is not a module of the model"
            )
        if _is_container(unit):
            raise RecipeError(
                f"blocks(model) returned a {type(unit).__name__}, which is never called itself: return the "
                "modules in it one by one, like list(model.layers)"
            )
    chosen = {id(unit) for unit in units}
    # sorted by the number of others each contains: fully_shard needs the inner ones first
    units.sort(key=lambda unit: sum(id(module) in chosen for module in unit.modules()))
    return [unit for unit in units if unit is not model]


def _is_container(module: nn.Module) -> bool:
    """Return whether it contains modules and has no forward."""
    return isinstance(module, (nn.ModuleList, nn.ModuleDict)) and type(module).forward is nn.Module.forward


def units_by_size(model: nn.Module, least: int) -> list[nn.Module]:
    """Return modules with at least `least` parameters not in a smaller unit, innermost first; without
    `model`.

    A weight that several modules use (tied weights) is never part of a unit that holds only some of them: it
    would be freed while another still needs it.
    """
    owners = Counter(
        parameter for module in model.modules() for parameter in module.parameters(recurse=False)
    )
    units: list[nn.Module] = []

    def visit(module: nn.Module) -> Counter[nn.Parameter]:
        """Count the parameters below `module` that are in no unit, with the number of modules there that use
        each.
        """
        if module in seen:
            return Counter()
        seen.add(module)
        free = Counter(module.parameters(recurse=False))
        for child in module.children():
            free += visit(child)
        whole = all(count == owners[parameter] for parameter, count in free.items())
        enough = sum(parameter.numel() for parameter in free) >= least
        if module is not model and not _is_container(module) and whole and enough:
            units.append(module)
            return Counter()
        return free

    seen: set[nn.Module] = set()
    visit(model)
    return units


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
            "activation_checkpointing is set, but there is no function blocks(model) that returns modules: "
            "define it to return the modules to compute again in backward, or leave activation_checkpointing "
            "out"
        )
    for block in chosen:
        # set on the instance: a subclass would change pickles and `type(block)`
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
