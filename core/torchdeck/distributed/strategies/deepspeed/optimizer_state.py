"""Optimizer state under DeepSpeed: flat pieces of parameters, with one step count per group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.tensors.optimizer_state import state_key
from torchdeck.distributed.strategies.deepspeed.partitions import Partitions


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
