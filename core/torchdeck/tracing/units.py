"""A model's FSDP units, and which of them each parameter and buffer belongs to."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from torchdeck.contract.plan.model_profile import ITEM_SIZES, ONE_UNIT, ROOT, TensorInfo
from torchdeck.distributed.recipe import Recipe, RecipeError
from torchdeck.distributed.settings import FsdpSettings
from torchdeck.distributed.units import units_of


@dataclass(frozen=True)
class UnitMap:
    """Units in the order in which they are sharded, the root first."""

    names: tuple[str, ...]
    """As modules of the model; the root's is ''."""
    modules: tuple[nn.Module, ...]
    parameters: tuple[tuple[nn.Parameter, ...], ...]
    """Of each unit; no parameter is in two."""
    of_tensor: dict[int, int]
    """id of a parameter or buffer → unit."""


def map_units(model: nn.Module, recipe: Recipe, options: FsdpSettings) -> tuple[UnitMap, tuple[str, ...]]:
    """The units of `model` as FSDP would choose them, and a note where it could not.

    Raises:
        RecipeError: `blocks` names what is no module of the model.
    """
    notes: tuple[str, ...] = ()
    if options.wrap == "block" and recipe.blocks is None:
        units: list[nn.Module] = []
        notes = (ONE_UNIT,)
    else:
        units = units_of(model, recipe.blocks, options)
    names = {module: name for name, module in model.named_modules()}
    of_tensor: dict[int, int] = {}
    # as fully_shard does: what an earlier unit has is not taken again, and the root takes the rest
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
    """Refuse what cannot be sharded or trained: tensors without a shape yet, or that never have values.

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
    """What `model` trains and holds frozen; a shared parameter stands once, by its first name.

    Raises:
        RecipeError: one has a type that is not known here.
    """
    named = model.named_parameters()
    return tuple(_info(name, tensor, units, trainable=tensor.requires_grad) for name, tensor in named)


def buffer_infos(model: nn.Module, units: UnitMap) -> tuple[TensorInfo, ...]:
    """The buffers of `model`, each once.

    Raises:
        RecipeError: as of `parameter_infos`.
    """
    return tuple(_info(name, tensor, units, trainable=False) for name, tensor in model.named_buffers())


def _info(name: str, tensor: Tensor, units: UnitMap, *, trainable: bool) -> TensorInfo:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in ITEM_SIZES:
        raise RecipeError(f"{name} of the model is {dtype}, which cannot be predicted: use another type")
    return TensorInfo(name, tuple(tensor.shape), dtype, trainable, units.of_tensor[id(tensor)])
