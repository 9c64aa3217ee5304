"""A data parallel model whose gradients are averaged when the caller asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from torchdeck.compat.object_api.distributed.config import DDPConfig
from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.contract.arguments.errors import ArgumentError
from torchdeck.distributed.group.processes import this_rank
from torchdeck.distributed.strategies.base import DistributedStrategy

MakesOptimizer = Callable[[Iterable[nn.Parameter]], Optimizer]
"""Function from parameters to an optimizer, such as AdamOptimizer(0.001)."""


class DistributedDataParallel:
    """Replicas of `model` on all ranks. The ranks must have joined (`init`).

    Gradients add up over calls of `backward` until `update_parameters`.

    Args:
        model: the same on every rank; it is moved to this rank's device.
        config: options. Default: `DDPConfig()`.

    Raises:
        AgreementError: the ranks' models differ.
    """

    @arguments()
    def __init__(self, model: nn.Module, config: DDPConfig | None = None) -> None:
        rank = this_rank()
        options = (config or DDPConfig()).to_library()
        self._strategy = DistributedStrategy.from_config(
            {"strategy": "ddp", "ddp": options} if rank.is_distributed else {"strategy": "single"},
            environment=rank,
        )
        self._strategy.setup()
        self._model = model
        self._wrapped = self._strategy.wrap_model(model)
        self._input: Tensor | None = None
        self._output: Tensor | None = None
        self._synced = True
        self._optimizer: tuple[MakesOptimizer, Optimizer] | None = None

    @arguments(own_checks=True)
    def forward(self, input_tensor: Tensor) -> Tensor:
        """Return the model's output for this rank's batch."""
        moved = self._strategy.to_device(input_tensor)
        self._input = moved.detach().requires_grad_(moved.is_floating_point())
        with self._strategy.no_sync(self._wrapped):
            self._output = self._wrapped(self._input)
        return self._output

    @arguments(own_checks=True)
    def backward(self, grad_output: Tensor) -> Tensor | None:
        """Add the gradients of the last `forward` to those of the parameters, on this rank alone.

        Args:
            grad_output: gradient of the loss with respect to the output, in its shape.

        Returns:
            The gradient with respect to the input; None if it holds whole numbers.

        Raises:
            RuntimeError: there was no `forward` before.
        """
        if self._output is None or self._input is None:
            raise RuntimeError("there is nothing to go backward from: call forward first")
        with self._strategy.no_sync(self._wrapped):
            torch.autograd.backward(self._output, self._strategy.to_device(grad_output))
        self._output, self._synced = None, False
        return self._input.grad

    def sync_gradients(self) -> list[Tensor]:
        """Average the gradients over the ranks, which all call this; return them by parameter.

        Parameters without a gradient on any rank are left out.
        """
        if not self._synced:
            self._strategy.sync_gradients(self._model)
            self._synced = True
        return [parameter.grad for parameter in self._model.parameters() if parameter.grad is not None]

    @arguments(own_checks=True)
    def update_parameters(self, optimizer: Optimizer | MakesOptimizer) -> None:
        """Average the gradients unless that is done, step the optimizer, and set the gradients to zero.

        Args:
            optimizer: over the model's parameters; or a function that makes one, once.

        Raises:
            ArgumentError: it is another function than at the first step.
        """
        self.sync_gradients()
        made = optimizer if isinstance(optimizer, Optimizer) else self._made(optimizer)
        self._strategy.optimizer_step(made)
        made.zero_grad()
        self._synced = False  # also on a rank that has no batch left for the next step

    def is_master(self) -> bool:
        """Return whether this is rank 0."""
        return self._strategy.is_main_process

    def get_rank(self) -> int:
        """Return the rank, from 0."""
        return self._strategy.rank

    def get_world_size(self) -> int:
        """Return the number of ranks."""
        return self._strategy.world_size

    def get_model(self) -> nn.Module:
        """Return the model as it was given."""
        return self._model

    def _made(self, make: MakesOptimizer) -> Optimizer:
        if self._optimizer is None:
            self._optimizer = make, make(self._model.parameters())
        made_by, made = self._optimizer
        if made_by != make:
            raise ArgumentError(
                "optimizer is another function than before, whose optimizer would have no state",
                fix="give the same one at each step, or an optimizer",
            )
        return made
