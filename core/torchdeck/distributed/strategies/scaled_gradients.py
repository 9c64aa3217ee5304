"""Scale of a strategy's gradients between backward pass and optimizer step: above 1 only in fp16."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from torch import Tensor

from torchdeck.distributed.precision import LossScaler


class ScaledGradients:
    """Gradients of scaled losses, and whether their optimizers may step.

    Args:
        scaler: gives the scale, and learns from the norms of the gradients.
    """

    def __init__(self, scaler: LossScaler) -> None:
        self._scaler = scaler
        self._scale = 1.0
        self._norms: dict[int, float] = {}
        """Norm of the gradient that a parameter's is part of, by id, if it was measured and unscaled."""
        self._learned = self._overflowed = False
        """Whether the scaler has learned from the newest backward pass, and that it overflowed."""

    def scaled(self, loss: Tensor) -> Tensor:
        """Return the loss for a backward pass."""
        if not self._scaler.enabled:
            return loss
        self._scale = self._scaler.scale
        self._norms.clear()
        self._learned = self._overflowed = False
        return loss * self._scale

    def scale_of(self, parameters: Sequence[Tensor]) -> float:
        """Return the factor by which the gradients of `parameters` are too large."""
        return 1.0 if any(id(parameter) in self._norms for parameter in parameters) else self._scale

    def measured(self, parameters: Sequence[Tensor], norm: float) -> None:
        """Record the norm without scale of the gradient of `parameters`, which has no scale from now on,
        unless it is not finite.
        """
        self._norms |= {id(parameter): norm for parameter in parameters}

    def may_step(self, parameters: Sequence[Tensor], unscale: Callable[[Sequence[Tensor]], float]) -> bool:
        """Return whether an optimizer may step: the gradients of its parameters are finite.

        Args:
            parameters: the optimizer's.
            unscale: divides gradients by the scale if they are finite; returns their norm without it.

        Raises:
            RecipeError: gradients overflow however small the scale.
        """
        if not self._scaler.enabled:
            return True
        norms = [self._norms[id(each)] for each in parameters if id(each) in self._norms]
        rest = [each for each in parameters if id(each) not in self._norms]
        if not norms or any(each.grad is not None for each in rest):
            norms.append(unscale(rest))
            self.measured(rest, norms[-1])
        finite = all(map(math.isfinite, norms))
        # once per backward pass, however many optimizers step
        if not (self._learned if finite else self._overflowed):
            self._scaler.update(0.0 if finite else math.inf)
        self._learned, self._overflowed = True, self._overflowed or not finite
        return finite
