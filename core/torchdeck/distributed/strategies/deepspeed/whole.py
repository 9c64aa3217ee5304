"""Description of model and optimizer before DeepSpeed partitioned them."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.tensors.model_state import Listing, listing_of, model_tensors
from torchdeck.distributed.strategies.deepspeed.optimizer_state import is_spread, states_by_group
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
