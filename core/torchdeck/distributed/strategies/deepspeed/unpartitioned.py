"""Description of model and optimizer before DeepSpeed partitioned them."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.tensors.model_state import Listing, listing_of, model_tensors
from torchdeck.distributed.checkpoints.tensors.optimizer_state import state_key
from torchdeck.distributed.strategies.deepspeed.partitions import Partitions


@dataclass
class Whole:
    """Model and optimizer before the engine partitioned them: names, shapes and dtypes, without memory."""

    listing: Listing
    skeleton: nn.Module
    """The model's parameters on the meta device."""
    optimizer: Optimizer | None = None
    """Optimizer over the parameters of `skeleton`."""
    option_names: list[list[str]] = field(default_factory=list)
    """Option names of each of its groups, without the parameters."""

    @classmethod
    def of(cls, model: nn.Module) -> Whole:
        """Describe a model that is not partitioned yet."""
        return cls(listing_of(model_tensors(model)), _Skeleton(model))

    def add_optimizer(self, model: nn.Module, optimizer: Optimizer) -> None:
        """Record the groups of `optimizer`, which is over the parameters of `model`."""
        names: dict[Tensor, str] = {param: name for name, param in model.named_parameters()}
        twins = dict(self.skeleton.named_parameters())
        self.optimizer = copy.copy(optimizer)
        self.optimizer.state = defaultdict(dict)  # a copy shares it with the training optimizer
        self.optimizer.param_groups = [
            {**group, "params": [_twin(twins, names, param) for param in group["params"]]}
            for group in optimizer.param_groups
        ]
        self.option_names = [[key for key in group if key != "params"] for group in optimizer.param_groups]

    def described(self, partitions: Partitions) -> Optimizer:
        """Return the optimizer with its current options and state, with tensors on the meta device.

        Raises:
            CheckpointError: a state does not have one number per element of a parameter.
        """
        if self.optimizer is None:
            raise RuntimeError("prepare_optimizer comes before a checkpoint")
        states = states_by_group(partitions)
        self.optimizer.state.clear()
        groups = zip(self.optimizer.param_groups, partitions.groups, self.option_names, strict=True)
        for index, (group, live, options) in enumerate(groups):
            group.update({key: live[key] for key in options})
            for param in group["params"]:
                if param.requires_grad and param.numel() and index in states:
                    self.optimizer.state[param] = {
                        key: torch.empty_like(param, dtype=value.dtype) if is_spread(value) else value
                        for key, value in states[index].items()
                    }
        return self.optimizer


class _Skeleton(nn.Module):
    """A model's parameters under its own names on the meta device: names, shapes and dtypes only."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._named = [
            (name, nn.Parameter(torch.empty_like(param, device="meta"), requires_grad=param.requires_grad))
            for name, param in model.named_parameters()
        ]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, nn.Parameter]]:  # noqa: ARG002
        return iter(self._named)


def _twin(twins: Mapping[str, Tensor], names: Mapping[Tensor, str], param: Tensor) -> Tensor:
    if param not in names:
        raise CheckpointError(
            f"the optimizer holds a parameter of shape {tuple(param.shape)} that is not the model's: "
            "make the optimizer of the model that wrap_model was given"
        )
    return twins[names[param]]


# Optimizer state under DeepSpeed: flat pieces of parameters, with one step count per group.


def is_spread(value: object) -> bool:
    """Return whether a state has one number per element, unlike a step count."""
    return isinstance(value, Tensor) and value.dim() > 0


def states_by_group(partitions: Partitions) -> dict[int, dict[str, Any]]:
    """Return the optimizer state of the first partition of each group; empty before the first step."""
    found: dict[int, dict[str, Any]] = {}
    for index, flat in enumerate(partitions.flat):
        state = partitions.state.get(flat)
        if not state:
            continue
        for key, value in state.items():
            if is_spread(value) and value.shape != flat.shape:
                raise CheckpointError(
                    f"optimizer state {key} is not one number for each element of a parameter, so it cannot "
                    "be saved under DeepSpeed, whose optimizer sees flat pieces of parameters"
                )
        found.setdefault(partitions.group_of(index), dict(state))
    return found


def made_state(
    partition: Tensor,
    group: Mapping[str, Any],
    names: Sequence[str],
    saved: Mapping[str, Mapping[str, Mapping[str, Any]]],
    tensors: Mapping[str, Tensor],
) -> dict[str, Any]:
    """Create the state of a partition of the parameters `names`: zeros to be filled, and their common values.

    Raises:
        CheckpointError: the parameters have no common values, although DeepSpeed steps them as one.
    """
    if not names:
        return {}
    states = [saved.get(name, {}) for name in names]
    made: dict[str, Any] = {}
    for key, spec in states[0].items():
        if spec.get("like_parameter"):
            made[key] = torch.zeros_like(partition, dtype=getattr(torch, spec["dtype"]))
        elif "shape" in spec:
            found = [tensors.get(state_key(0, name, key)) for name in names]
            values = [value for value in found if value is not None]
            if len(values) < len(names) or any(not torch.equal(value, values[0]) for value in values):
                raise _uneven(names, key)
            on_device = group.get("fused") or group.get("capturable")
            made[key] = values[0].to(partition.device if on_device else "cpu", copy=True)
        else:
            made[key] = spec["value"]
    if any(state.keys() != states[0].keys() for state in states):
        raise _uneven(names, "state")
    return made


def _uneven(names: Sequence[str], what: str) -> CheckpointError:
    return CheckpointError(
        f"the parameters of the optimizer's group that begins with {names[0]} differ in their {what}: "
        "DeepSpeed steps a group as one, so continue with the strategy that saved it"
    )
