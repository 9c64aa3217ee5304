"""FSDP units of a model, and the unit of each parameter and buffer."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from torchdeck.contract.plan.model_profile import ITEM_SIZES, ONE_UNIT, ROOT, TensorInfo
from torchdeck.distributed.fsdp_units import units_of
from torchdeck.distributed.rank_settings import FsdpSettings
from torchdeck.distributed.recipe_loading import Recipe, RecipeError


@dataclass(frozen=True)
class UnitMap:
    """Units in the order in which they are sharded, the root first."""

    names: tuple[str, ...]
    """Module names in the model; the root's is ''."""
    modules: tuple[nn.Module, ...]
    parameters: tuple[tuple[nn.Parameter, ...], ...]
    """Parameters of each unit; none is in two."""
    of_tensor: dict[int, int]
    """id of a parameter or buffer → unit."""


def map_units(model: nn.Module, recipe: Recipe, options: FsdpSettings) -> tuple[UnitMap, tuple[str, ...]]:
    """Return the units of `model` as FSDP would choose them, and a note if it could not.

    Raises:
        RecipeError: `blocks` returns something that is not a module of the model.
    """
    notes: tuple[str, ...] = ()
    if options.wrap == "block" and recipe.blocks is None:
        units: list[nn.Module] = []
        notes = (ONE_UNIT,)
    else:
        units = units_of(model, recipe.blocks, options)
    names = {module: name for name, module in model.named_modules()}
    of_tensor: dict[int, int] = {}
    # as in fully_shard: parameters of an earlier unit are not taken again, and the root takes the rest
    for index, unit in [*enumerate(units, 1), (ROOT, model)]:
        for tensor in [*unit.parameters(), *unit.buffers()]:
            of_tensor.setdefault(id(tensor), index)
    members: list[list[nn.Parameter]] = [[] for _ in range(len(units) + 1)]
    for parameter in model.parameters():
        members[of_tensor[id(parameter)]].append(parameter)
    return UnitMap(
        names=("", *(names[unit] for unit in units)),
        modules=(model, *units),
        parameters=tuple(map(tuple, members)),
        of_tensor=of_tensor,
    ), notes


def check_tensors(model: nn.Module) -> None:
    """Reject tensors that cannot be sharded or trained: those without a shape yet, or that never have values.

    Raises:
        RecipeError: there is one.
    """
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if isinstance(tensor, (UninitializedParameter, UninitializedBuffer)):
            raise RecipeError(
                f"{name} of the model has no shape before the first forward (a lazy module): give the layer "
                "its input size"
            )
        if tensor.device.type == "meta":
            raise RecipeError(
                f"{name} of the model is on the meta device, where it has no values to train from: build the "
                "model on the CPU"
            )


def parameter_infos(model: nn.Module, units: UnitMap) -> tuple[TensorInfo, ...]:
    """Return the trained and the frozen parameters of `model`; a shared one is listed once, by its first
    name.

    Raises:
        RecipeError: one has an unsupported dtype.
    """
    named = model.named_parameters()
    return tuple(_info(name, tensor, units, trainable=tensor.requires_grad) for name, tensor in named)


def buffer_infos(model: nn.Module, units: UnitMap) -> tuple[TensorInfo, ...]:
    """Return the buffers of `model`, each once.

    Raises:
        RecipeError: see `parameter_infos`.
    """
    return tuple(_info(name, tensor, units, trainable=False) for name, tensor in model.named_buffers())


def _info(name: str, tensor: Tensor, units: UnitMap, *, trainable: bool) -> TensorInfo:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in ITEM_SIZES:
        raise RecipeError(f"{name} of the model is {dtype}, which cannot be predicted: use another type")
    return TensorInfo(name, tuple(tensor.shape), dtype, trainable, units.of_tensor[id(tensor)])
