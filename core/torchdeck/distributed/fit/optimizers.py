"""Optimizer of an in-memory training: by name, from a function, or an existing one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from torch import nn
from torch.optim import Optimizer

from torchdeck.distributed.settings import RecipeSettings


def own_optimizer(
    given: str | Optimizer | Callable[[Any], Any], model: nn.Module, lr: float | None
) -> OwnOptimizer | None:
    """Return the user's own optimizer; None if one is named.

    Raises:
        TypeError: `lr` is given with an optimizer that has its own.
        ValueError: it has parameters that are not the model's.
    """
    if isinstance(given, str):
        return None
    own = OwnOptimizer(given, model)
    if lr is not None:
        raise TypeError("lr is given beside an optimizer that has its own: leave one of them out")
    return own


class OwnOptimizer:
    """The user's own optimizer, over the model's parameters after a strategy has wrapped it.

    Args:
        given: an optimizer over `model`'s parameters, or a function from its trainable parameters to one.
        model: not wrapped yet.

    Raises:
        ValueError: the optimizer has parameters that are not the model's.
    """

    def __init__(self, given: Optimizer | Callable[[Any], Any], model: nn.Module) -> None:
        self._given = given
        self._names: list[list[str]] = []
        self.lr = 0.0
        """Its learning rate, once it was built; groups that have another keep their share of it."""
        if isinstance(given, Optimizer):
            names = {id(parameter): name for name, parameter in model.named_parameters()}
            self._names = [
                [_named(names, parameter) for parameter in group["params"]] for group in given.param_groups
            ]

    def build(self, model: nn.Module) -> Optimizer:
        """Return the optimizer of the wrapped model.

        Raises:
            TypeError: the function did not return an optimizer.
            ValueError: it has no learning rate above 0, or state for parameters that sharding has replaced.
        """
        given = self._given
        optimizer = given if isinstance(given, Optimizer) else self._made(given, model)
        if isinstance(given, Optimizer):
            self._rebind(given, dict(model.named_parameters()))
        self.lr = float(optimizer.defaults.get("lr") or 0.0)
        if not self.lr > 0:
            raise ValueError("the optimizer has no learning rate above 0: nothing would be learned")
        return optimizer

    def in_settings(self, settings: RecipeSettings) -> RecipeSettings:
        """Return `settings` with the optimizer's learning rate; call it after `build`."""
        training = dataclasses.replace(settings.training, lr=self.lr, scaled_lr=self.lr)
        return dataclasses.replace(settings, training=training)

    def _made(self, make: Callable[[Any], Any], model: nn.Module) -> Optimizer:
        made = make([parameter for parameter in model.parameters() if parameter.requires_grad])
        if not isinstance(made, Optimizer):
            raise TypeError(
                f"optimizer(parameters) returned {type(made).__name__}: return a torch.optim.Optimizer, as "
                "functools.partial(torch.optim.AdamW, lr=1e-3) does"
            )
        return made

    def _rebind(self, optimizer: Optimizer, parameters: dict[str, nn.Parameter]) -> None:
        """Replace the optimizer's parameters with the model's current ones, by name."""
        for group, names in zip(optimizer.param_groups, self._names, strict=True):
            members = [parameters[name] for name in names]
            replaced = any(now is not then for now, then in zip(members, group["params"], strict=True))
            if replaced and optimizer.state:
                raise ValueError(
                    "the optimizer has state already, and sharding replaces the parameters it is for: give a "
                    "fresh optimizer, and load_checkpoint() what was saved"
                )
            group["params"] = members


def _named(names: dict[int, str], parameter: Any) -> str:
    if id(parameter) not in names:
        raise ValueError(
            f"the optimizer has a parameter of shape {tuple(parameter.shape)} that is not the model's: make "
            "it of model.parameters()"
        )
    return names[id(parameter)]
