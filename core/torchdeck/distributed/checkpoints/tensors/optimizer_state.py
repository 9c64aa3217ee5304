"""The optimizers' part of a checkpoint: state by parameter name, tensors separate from numbers.

`torch.distributed.checkpoint.state_dict.get_optimizer_state_dict` is not used. To learn the state's layout it
steps the optimizer, which counts if there was no step before (Adam's bias correction after a checkpoint at
step 0). It also rejects states in which some parameters never had a gradient. This module saves exactly the
existing state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.tensors.model_state import bare_name, dtype_name, unwrap

_HOW = frozenset({"foreach", "fused", "capturable", "differentiable"})
"""Group options that select an implementation, not the result: this run's own apply."""


def describe_optimizers(
    model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]
) -> list[dict[str, Any]]:
    """Return everything about the optimizers except their tensors, as JSON.

    Raises:
        CheckpointError: there is a parameter that is not the model's, or state that is neither tensor nor
            number.
    """
    names = _parameter_names(model)
    return [
        {
            "kind": type(optimizer).__name__,
            "groups": [_group_to_json(names, group) for group in optimizer.param_groups],
            "state": {
                _name(names, param): {
                    key: _spec(_name(names, param), key, value, param) for key, value in state.items()
                }
                for param, state in optimizer.state.items()
            },
        }
        for optimizer in optimizers
    ]


def optimizer_tensors(
    model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]
) -> dict[str, torch.Tensor]:
    """Return the tensors of the optimizers' states, by optimizer, parameter and key."""
    names = _parameter_names(model)
    return {
        state_key(index, _name(names, param), key): value
        for index, optimizer in enumerate(optimizers)
        for param, state in optimizer.state.items()
        for key, value in state.items()
        if isinstance(value, torch.Tensor)
    }


def check_same_optimizers(
    model: nn.Module, optimizers: Sequence[torch.optim.Optimizer], saved: Sequence[Mapping[str, Any]]
) -> None:
    """Raise CheckpointError with the difference unless `saved` describes optimizers like these."""
    kinds = [type(optimizer).__name__ for optimizer in optimizers]
    saved_kinds = [str(item["kind"]) for item in saved]
    if kinds and not saved_kinds:
        raise CheckpointError(
            "it holds weights and no optimizer, as one made of others' weights does: training can begin with "
            "them (model.init_from, or a recipe's own load), not resume from them"
        )
    if kinds != saved_kinds:
        raise CheckpointError(
            f"the checkpoint's optimizer is {_listed(saved_kinds)}, this run's is {_listed(kinds)}: "
            "give an optimizer of the kind that it was"
        )
    names = _parameter_names(model)
    for optimizer, item in zip(optimizers, saved, strict=True):
        groups = [[_name(names, param) for param in group["params"]] for group in optimizer.param_groups]
        saved_groups = [list(group["params"]) for group in item["groups"]]
        sizes, saved_sizes = [len(group) for group in groups], [len(group) for group in saved_groups]
        if sizes != saved_sizes:
            raise CheckpointError(
                f"the checkpoint's optimizer has parameter groups of {saved_sizes} parameters, "
                f"this run's of {sizes}"
            )
        for ours, theirs in zip(_flat(groups), _flat(saved_groups), strict=True):
            if ours != theirs:
                raise CheckpointError(
                    f"the checkpoint's optimizer has {theirs} where this run's has {ours}: "
                    "its parameter groups are made differently"
                )


def empty_tensors(
    model: nn.Module, optimizers: Sequence[torch.optim.Optimizer], saved: Sequence[Mapping[str, Any]]
) -> dict[str, torch.Tensor]:
    """Return memory to load the states into, with this run's parameter layout."""
    params = {name: param for param, name in _parameter_names(model).items()}
    return {
        state_key(index, name, key): _empty(params[name], spec)
        for index, (_, item) in enumerate(zip(optimizers, saved, strict=True))
        for name, state in item["state"].items()
        for key, spec in state.items()
        if "shape" in spec
    }


def restore_optimizers(
    model: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    saved: Sequence[Mapping[str, Any]],
    tensors: Mapping[str, torch.Tensor],
) -> None:
    """Restore the optimizers' state and group options (learning rate and so on) from the checkpoint."""
    names = _parameter_names(model)
    for index, (optimizer, item) in enumerate(zip(optimizers, saved, strict=True)):
        params = [param for group in optimizer.param_groups for param in group["params"]]
        state = {
            number: {
                key: tensors[state_key(index, name, key)] if "shape" in spec else spec["value"]
                for key, spec in item["state"][name].items()
            }
            for number, name in enumerate(_name(names, param) for param in params)
            if name in item["state"]
        }
        numbers = iter(range(len(params)))
        groups = [
            restored_group(group, stored, [next(numbers) for _ in group["params"]])
            for group, stored in zip(optimizer.param_groups, item["groups"], strict=True)
        ]
        optimizer.load_state_dict({"state": state, "param_groups": groups})


def _parameter_names(model: nn.Module) -> dict[torch.Tensor, str]:
    # torch hashes tensors by identity; a tied parameter counts once, under its first name
    return {param: bare_name(name) for name, param in unwrap(model).named_parameters()}


def _name(names: Mapping[torch.Tensor, str], param: torch.Tensor) -> str:
    if param not in names:
        raise CheckpointError(
            f"the optimizer holds a parameter of shape {tuple(param.shape)} that is not the model's: "
            "make the optimizer after the model was wrapped"
        )
    return names[param]


def state_key(index: int, name: str, key: str) -> str:
    """Return the name in a checkpoint of one tensor of an optimizer's state."""
    return f"optimizer.{index}.{name}.{key}"


def _spec(name: str, key: str, value: Any, param: torch.Tensor) -> dict[str, Any]:
    if isinstance(value, torch.Tensor):
        same_layout = isinstance(value, DTensor) == isinstance(param, DTensor)
        # a step count stays where the optimizer keeps it, on the CPU, whatever the parameter's shape
        like = key != "step" and same_layout and value.shape == param.shape
        if isinstance(value, DTensor) and not like:
            raise CheckpointError(
                f"optimizer state {key} of {name} is sharded otherwise than its parameter: it cannot be saved"
            )
        return {"shape": list(value.shape), "dtype": dtype_name(value.dtype), "like_parameter": like}
    return {"value": _plain(f"optimizer state {key} of {name}", value)}


def _plain(what: str, value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_plain(what, item) for item in value]
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return _plain(what, value.item())
    number = isinstance(value, (int, float)) and math.isfinite(value)
    if value is None or number or isinstance(value, (str, bool)):
        return value
    raise CheckpointError(f"{what} is {value!r}: only tensors and plain numbers can be saved")


def _group_to_json(names: Mapping[torch.Tensor, str], group: Mapping[str, Any]) -> dict[str, Any]:
    options = {
        key: _plain(f"option {key} of the optimizer", value)
        for key, value in group.items()
        if key != "params" and key not in _HOW
    }
    return {"params": [_name(names, param) for param in group["params"]], "options": options}


def restored_group(
    current: Mapping[str, Any], stored: Mapping[str, Any], numbers: list[int]
) -> dict[str, Any]:
    """Return a parameter group with the options of a checkpoint, in the types they have in `current`."""
    group: dict[str, Any] = {"params": numbers}
    for key, value in current.items():
        if key == "params":
            continue
        saved = stored["options"].get(key, value)
        if isinstance(value, torch.Tensor):
            group[key] = torch.full_like(value, saved) if not isinstance(saved, torch.Tensor) else saved
        else:
            group[key] = tuple(saved) if isinstance(saved, list) else saved
    return {**{key: value for key, value in stored["options"].items() if key not in current}, **group}


def _empty(param: torch.Tensor, spec: Mapping[str, Any]) -> torch.Tensor:
    # not zeros: touching fresh memory takes as long as reading into it, and reading is done in threads
    dtype = getattr(torch, spec["dtype"])
    if spec["like_parameter"]:
        return torch.empty_like(param.detach(), dtype=dtype)
    return torch.empty(spec["shape"], dtype=dtype)


def _flat(groups: Sequence[Sequence[str]]) -> Iterator[str]:
    return (name for group in groups for name in group)


def _listed(kinds: Sequence[str]) -> str:
    return " + ".join(kinds) if kinds else "none"
