"""Scale of a strategy's gradients between backward pass and optimizer step: above 1 only in fp16."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

from torch import Tensor
from torch.optim import Optimizer

from torchdeck.distributed.precision import LossScaler


class ScaledGradients:
    """Gradients of scaled losses, and whether their optimizers may step.

    Args:
        scaler: gives the scale, and learns from the norm of the gradients.

    Attributes:
        scale: factor by which the gradients are too large.
    """

    def __init__(self, scaler: LossScaler) -> None:
        self._scaler = scaler
        self.scale = 1.0
        self._norm: float | None = None
        self._allowed: bool | None = None
        self._steps: WeakKeyDictionary[Optimizer, bool] = WeakKeyDictionary()

    def scaled(self, loss: Tensor) -> Tensor:
        """Return the loss for a backward pass."""
        if not self._scaler.enabled:
            return loss
        self.scale = self._scaler.scale
        self._norm = self._allowed = None
        self._steps.clear()
        return loss * self.scale

    def measured(self, norm: float, *, unscaled: bool) -> None:
        """Record the norm of the gradients, without the scale; `unscaled`: the gradients have none now."""
        self._norm = norm
        if unscaled:
            self.scale = 1.0

    def may_step(self, optimizer: Optimizer, unscale: Callable[[], float]) -> bool:
        """Return whether `optimizer` may step: its gradients are finite.

        The scaler learns of each backward pass once, or of each optimizer's part if the whole norm was not
        measured.

        Args:
            optimizer: the optimizer to step.
            unscale: divides its gradients by the scale if they are finite; returns their norm without it.

        Raises:
            RecipeError: gradients overflow however small the scale.
        """
        if not self._scaler.enabled:
            return True
        if self._norm is not None:
            if self._allowed is None:
                self._allowed = self._scaler.update(self._norm)
            return self._allowed
        if optimizer not in self._steps:
            self._steps[optimizer] = self._scaler.update(unscale())
        return self._steps[optimizer]
