"""Parameters that a strategy has replaced in the model: an optimizer made before would train nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakSet

from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.weak import WeakTensorKeyDictionary

from torchdeck.distributed.recipe_loading import RecipeError


class ReplacedParameters:
    """Old parameters of wrapped models, with the new ones. Optimizers that have old ones cannot step."""

    def __init__(self) -> None:
        self._new: Any = WeakTensorKeyDictionary()
        self._checked: WeakSet[Optimizer] = WeakSet()
        self._hook: Any = None

    def add(self, before: Mapping[str, nn.Parameter], model: nn.Module) -> None:
        """Record that `model` had the parameters `before`, by name.

        Raises:
            RecipeError: a parameter was one with another before, in different units of sharding.
        """
        for name, parameter in model.named_parameters():
            if name not in before:
                raise RecipeError(
                    f"{name} is shared by modules that are sharded apart, which would make two parameters of "
                    "it: leave one of these modules out of blocks"
                )
            if before[name] is not parameter:
                self._new[before[name]] = parameter
        if self._hook is None:
            self._hook = register_optimizer_step_pre_hook(self._check)

    def retarget(self, optimizer: Optimizer) -> None:
        """Replace old parameters of `optimizer` by the new ones.

        Raises:
            RecipeError: it has state of old ones.
        """
        for group in optimizer.param_groups:
            if any(
                parameter in self._new and optimizer.state.get(parameter) for parameter in group["params"]
            ):
                raise RecipeError(
                    "the optimizer has taken steps before wrap_model, whose sharding replaces parameters: "
                    "wrap the model first, or save a checkpoint before and load it afterwards"
                )
            group["params"] = [self._new.get(parameter, parameter) for parameter in group["params"]]

    def close(self) -> None:
        """Forget them."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        self._new.clear()

    def _check(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:  # noqa: ARG002 - torch's signature
        if optimizer in self._checked:
            return
        groups = optimizer.param_groups
        if any(parameter in self._new for group in groups for parameter in group["params"]):
            raise RecipeError(
                "the optimizer was made before the model was wrapped, whose sharding replaces parameters, so "
                "that it would train nothing: make it afterwards, or give it to strategy.prepare_optimizer"
            )
        self._checked.add(optimizer)


def check_trains(model: nn.Module, optimizer: Optimizer) -> None:
    """Raise RecipeError if `optimizer` has none of the parameters of `model`."""
    known = {id(parameter) for parameter in model.parameters()}
    if not any(id(parameter) in known for group in optimizer.param_groups for parameter in group["params"]):
        raise RecipeError(
            "the optimizer has none of the model's parameters, so that it would train nothing: make it over "
            "model.parameters() of the model that was given to wrap_model"
        )
