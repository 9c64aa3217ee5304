"""A training under DeepSpeed as checkpoints see it: whole fp32 tensors by name, as under any other strategy.

Of DeepSpeed's own checkpoints, which are pickles, nothing is written or read.
"""

from __future__ import annotations

import copy
import importlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from torchdeck.distributed.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.model_state import (
    Listing,
    bare_name,
    listing_of,
    local_buffers,
    model_tensors,
    restore_buffers,
)
from torchdeck.distributed.checkpoints.optimizer_state import (
    check_same_optimizers,
    describe_optimizers,
    restored_group,
    state_key,
)
from torchdeck.distributed.strategies.deepspeed_partitions import Partitions


@dataclass
class Whole:
    """Model and optimizer before the engine took them apart: names, shapes and types, without memory."""

    listing: Listing
    skeleton: nn.Module
    """Its parameters are the model's, on no device."""
    optimizer: Optimizer | None = None
    """Over the parameters of `skeleton`."""
    option_names: list[list[str]] = field(default_factory=list)
    """What each of its groups says besides its parameters."""

    @classmethod
    def of(cls, model: nn.Module) -> Whole:
        """That of a model that is whole still."""
        return cls(listing_of(model_tensors(model)), _Skeleton(model))

    def add_optimizer(self, model: nn.Module, optimizer: Optimizer) -> None:
        """Remember the groups of `optimizer`, which is over the parameters of `model`."""
        names: dict[Tensor, str] = {param: name for name, param in model.named_parameters()}
        twins = dict(self.skeleton.named_parameters())
        self.optimizer = copy.copy(optimizer)
        self.optimizer.state = defaultdict(dict)  # a copy shares it with the optimizer that trains
        self.optimizer.param_groups = [
            {**group, "params": [_twin(twins, names, param) for param in group["params"]]}
            for group in optimizer.param_groups
        ]
        self.option_names = [[key for key in group if key != "params"] for group in optimizer.param_groups]

    def described(self, partitions: Partitions) -> Optimizer:
        """The optimizer with its options and state as they are now, tensors on no device.

        Raises:
            CheckpointError: a state that is not one number for each element of a parameter.
        """
        if self.optimizer is None:
            raise RuntimeError("prepare_optimizer comes before a checkpoint")
        states = _states_by_group(partitions)
        self.optimizer.state.clear()
        groups = zip(self.optimizer.param_groups, partitions.groups, self.option_names, strict=True)
        for index, (group, live, options) in enumerate(groups):
            group.update({key: live[key] for key in options})
            for param in group["params"]:
                if param.requires_grad and param.numel() and index in states:
                    self.optimizer.state[param] = {
                        key: torch.empty_like(param, dtype=value.dtype) if _is_spread(value) else value
                        for key, value in states[index].items()
                    }
        return self.optimizer


class DeepSpeedTensors:
    """Weights and optimizer state that lie in an engine's partitions.

    A save puts each tensor together on one rank, names dealt out in turn, so a rank holds 1/N of it all in
    the machine's memory. A load reads every tensor whole on every rank, which then keeps its pieces.
    """

    def __init__(self, model: nn.Module, engine: Any, whole: Whole, rank: int, world_size: int) -> None:
        self._model = model
        self._whole = whole
        self._rank = rank
        self._world_size = world_size
        self._device = engine.device
        self._stage = int(engine.zero_optimization_stage())
        self._params = {
            bare_name(name): param for name, param in model.named_parameters(remove_duplicate=False)
        }
        sizes = {bare_name(name): param.numel() for name, param in whole.skeleton.named_parameters()}
        self._trained = [name for name, size in sizes.items() if size and self._params[name].requires_grad]
        self._partitions = Partitions(engine, {name: self._params[name] for name in self._trained})

    def gradients(self) -> list[Tensor]:
        """This rank's part of the averaged gradients."""
        return self._partitions.gradients()

    @torch.no_grad()
    def set_master_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Copy this rank's pieces of `weights` into what the optimizer steps; the model's own stay."""
        flat = self._partitions.flat
        for name in self._trained:
            self._scatter(name, weights[name], flat)

    def listing(self) -> Listing:
        return self._whole.listing

    def model(self) -> dict[str, Tensor]:
        first = {param: name for name, param in reversed(self._params.items())}
        found: dict[str, Tensor] = {}
        for index, (name, (shape, dtype)) in enumerate(self._whole.listing.items()):
            owner = index % self._world_size if name in self._params else 0
            param = self._params.get(name)
            if param is None:
                value: Tensor | None = model_tensors(self._model)[name]
            elif first[param] in self._trained:
                value = self._gather(first[param], self._partitions.flat, shape, owner)
            else:
                value = self._frozen(param)
            if owner == self._rank and value is not None:
                found[name] = value.detach().to("cpu", getattr(torch, dtype), copy=True)
        return found

    def optimizer(self) -> dict[str, Tensor]:
        flat = self._partitions.flat
        group_of = {id(p): g for g, group in enumerate(self._groups) for p in group["params"]}
        twins = dict(self._whole.skeleton.named_parameters())
        states, found = _states_by_group(self._partitions), {}
        for index, name in enumerate(self._trained):
            owner = index % self._world_size
            state = states.get(group_of.get(id(twins[name]), -1), {})
            for key, value in state.items():
                if _is_spread(value):
                    spread = [self._partitions.state.get(part, {}).get(key, part) for part in flat]
                    whole = self._gather(name, spread, tuple(twins[name].shape), owner)
                else:
                    whole = value if isinstance(value, Tensor) else None
                if owner == self._rank and whole is not None:
                    found[state_key(0, name, key)] = whole.detach().to("cpu", copy=True)
        return found

    def alike(self) -> tuple[Collection[str], Collection[str]]:
        return (), ()  # dealt out already

    def describe_optimizers(self) -> list[dict[str, Any]]:
        return describe_optimizers(self._whole.skeleton, [self._whole.described(self._partitions)])

    def check_same_optimizers(self, saved: Sequence[Mapping[str, Any]]) -> None:
        check_same_optimizers(self._whole.skeleton, [self._whole.described(self._partitions)], saved)

    def model_places(self) -> dict[str, Tensor]:
        return {
            name: torch.zeros(shape, dtype=getattr(torch, dtype))
            for name, (shape, dtype) in self._whole.listing.items()
        }

    def optimizer_places(self, saved: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        return {
            state_key(index, name, key): torch.zeros(spec["shape"], dtype=getattr(torch, spec["dtype"]))
            for index, item in enumerate(saved)
            for name, state in item["state"].items()
            for key, spec in state.items()
            if "shape" in spec
        }

    @torch.no_grad()
    def restore(
        self,
        model: dict[str, Tensor],
        optimizer: dict[str, Tensor],
        saved: Sequence[Mapping[str, Any]],
    ) -> None:
        self.set_master_weights(model)
        for name, param in self._params.items():
            if not param.requires_grad:
                self._set_frozen(param, model[name])
        restore_buffers(self._model, model)
        self._partitions.publish()
        self._restore_state(optimizer, saved[0])
        for live, current, stored in zip(
            self._partitions.groups, self._groups, saved[0]["groups"], strict=True
        ):
            options = restored_group(current, stored, [])
            live.update({key: value for key, value in options.items() if key != "params"})

    def buffers(self) -> dict[str, Tensor]:
        return local_buffers(self._model)

    def restore_buffers(self, saved: Mapping[str, Tensor]) -> None:
        restore_buffers(self._model, saved)

    @property
    def _groups(self) -> list[dict[str, Any]]:
        return self._whole.described(self._partitions).param_groups

    def _gather(
        self, name: str, sources: Sequence[Tensor], shape: tuple[int, ...], owner: int
    ) -> Tensor | None:
        """The whole of what `sources`, like the partitions, hold of a parameter; on `owner` alone."""
        whole = torch.zeros(shape, dtype=sources[0].dtype, device=self._device)
        for fragment in self._partitions.fragments(name):
            fragment.of_whole(whole).copy_(fragment.of(sources[fragment.partition].detach()))
        # every byte is zero on all ranks but one, so that the sum keeps it, whatever number it belongs to
        dist.reduce(whole.view(-1).view(torch.uint8), dst=owner)
        return whole if owner == self._rank else None

    def _scatter(self, name: str, whole: Tensor, targets: Sequence[Tensor]) -> None:
        for fragment in self._partitions.fragments(name):
            fragment.of(targets[fragment.partition].detach()).copy_(fragment.of_whole(whole))

    def _frozen(self, param: nn.Parameter) -> Tensor:
        if not hasattr(param, "ds_id"):
            return param.detach()
        with importlib.import_module("deepspeed").zero.GatheredParameters([param]):
            return param.detach().clone()

    def _set_frozen(self, param: nn.Parameter, value: Tensor) -> None:
        if not hasattr(param, "ds_id"):
            param.copy_(value)
            return
        with importlib.import_module("deepspeed").zero.GatheredParameters([param], modifier_rank=0):
            param.copy_(value)

    def _restore_state(self, tensors: Mapping[str, Tensor], saved: Mapping[str, Any]) -> None:
        """Give each partition the state of the parameters in it, made where there is none yet."""
        flat, state = self._partitions.flat, self._partitions.state
        state.clear()
        for index, partition in enumerate(flat):
            group = self._partitions.group_of(index)
            names = [name for name in saved["groups"][group]["params"] if name in self._trained]
            made = _made(partition, self._partitions.groups[group], names, saved["state"], tensors)
            if made:
                state[partition] = made
        for name in self._trained:
            for key, spec in saved["state"].get(name, {}).items():
                if spec.get("like_parameter"):
                    spread = [state[part][key] if part in state else part for part in flat]
                    self._scatter(name, tensors[state_key(0, name, key)], spread)


class _Skeleton(nn.Module):
    """Names, shapes and types of a model's parameters under its own names, on no device."""

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


def _is_spread(value: object) -> bool:
    """A state has one number for each element, other than a step count."""
    return isinstance(value, Tensor) and value.dim() > 0


def _states_by_group(partitions: Partitions) -> dict[int, dict[str, Any]]:
    """What the optimizer keeps for the first of each group's partitions; nothing before its first step."""
    found: dict[int, dict[str, Any]] = {}
    for index, flat in enumerate(partitions.flat):
        state = partitions.state.get(flat)
        if not state:
            continue
        for key, value in state.items():
            if _is_spread(value) and value.shape != flat.shape:
                raise CheckpointError(
                    f"optimizer state {key} is not one number for each element of a parameter, so it cannot "
                    "be saved under DeepSpeed, whose optimizer sees flat pieces of parameters"
                )
        found.setdefault(partitions.group_of(index), dict(state))
    return found


def _made(
    partition: Tensor,
    group: Mapping[str, Any],
    names: Sequence[str],
    saved: Mapping[str, Mapping[str, Mapping[str, Any]]],
    tensors: Mapping[str, Tensor],
) -> dict[str, Any]:
    """State for a partition of the parameters `names`: zeros to be filled, and what they all have in common.

    Raises:
        CheckpointError: they have nothing in common, where DeepSpeed steps them as one.
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
        "DeepSpeed steps a group as one, so go on with the strategy that saved it"
    )
