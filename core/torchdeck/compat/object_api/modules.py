"""Models, losses and optimizers: torch's, with a few more methods."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from torchdeck.contract.arguments.checked_call import arguments, checked_class


class LinearModule(nn.Linear):
    """torch's Linear."""


class ReLUModule(nn.ReLU):
    """torch's ReLU."""


class SequentialModel(nn.Sequential):
    """Modules that are called one after the other."""

    @arguments()
    def add(self, module: nn.Module) -> None:
        """Append a module."""
        self.append(module)

    @arguments()
    def save(self, path: str | Path) -> None:
        """Write the weights to a file, as torch.save does."""
        torch.save(self.state_dict(), path)

    @arguments()
    def load(self, path: str | Path) -> None:
        """Read weights that `save` wrote; no code in the file is executed."""
        self.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))


class CrossEntropyLoss(nn.CrossEntropyLoss):
    """torch's CrossEntropyLoss, with its gradient."""

    @arguments(own_checks=True)
    def backward(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the gradient of the loss with respect to `output`, in its shape."""
        leaf = output.detach().requires_grad_()
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(self(leaf, target), leaf)
        return gradient


@checked_class
@dataclass(frozen=True)
class AdamOptimizer:
    """Adam with a learning rate; a trainer or a parallel model makes it for its parameters."""

    lr: float = 1e-3
    """Learning rate."""

    def __call__(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """Return torch's Adam over `parameters`."""
        return Adam(parameters, lr=self.lr)
