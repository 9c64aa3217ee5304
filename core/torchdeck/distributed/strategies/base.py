"""What a strategy does for the trainer; the trainer never asks which one it has."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

from torchdeck.distributed.precision import Precision
from torchdeck.distributed.process_group import ProcessGroup
from torchdeck.distributed.settings import DistributedSettings
from torchdeck.distributed.units import Blocks
from torchdeck.environment import Place

if TYPE_CHECKING:
    from torchdeck.distributed.checkpoints.training_tensors import TrainingTensors

_NORM_FLOOR = 1e-6


class DistributedStrategy(ABC):
    """One way to train a model on several ranks.

    Call `setup` first and `close` last; `wrap_model` before the optimizer is made, as it may replace
    parameters.

    Args:
        settings: the strategy's options, backend and timeout.
        precision: number formats of the run.
        place: this rank.
    """

    name: str

    def __init__(self, settings: DistributedSettings, precision: Precision, place: Place) -> None:
        self.settings = settings
        self.precision = precision
        self.place = place
        self._group: ProcessGroup | None = None

    def setup(self) -> None:
        """Join the other ranks; waits for them up to the timeout."""
        self._group = self._join()

    def _join(self) -> ProcessGroup:
        return ProcessGroup(self.place, backend=self.settings.backend, timeout=self.settings.timeout)

    @property
    def group(self) -> ProcessGroup:
        """The ranks together."""
        if self._group is None:
            raise RuntimeError("the strategy is not set up: call setup() first")
        return self._group

    @property
    def rank(self) -> int:
        return self.place.rank

    @property
    def world_size(self) -> int:
        return self.place.world_size

    @property
    def local_rank(self) -> int:
        return self.place.local_rank

    @property
    def is_main_process(self) -> bool:
        """The one rank that speaks for all."""
        return self.place.rank == 0

    @property
    def device(self) -> torch.device:
        return self.group.device

    @abstractmethod
    def wrap_model(self, model: nn.Module, blocks: Blocks | None) -> nn.Module:
        """The model to call in training, on this rank's device; `model` goes on holding the weights."""

    def prepare_optimizer(self, wrapped: nn.Module, optimizer: Optimizer) -> Optimizer:  # noqa: ARG002
        """The optimizer to step, given the one made of the wrapped model's parameters; call it once, before
        the first forward."""
        return optimizer

    def tensors(self, model: nn.Module, optimizers: Sequence[Optimizer]) -> TrainingTensors:
        """Weights and optimizer state as checkpoints see them; `model` as it was given to `wrap_model`."""
        from torchdeck.distributed.checkpoints.training_tensors import ModuleTensors

        return ModuleTensors(model, optimizers)

    def accumulate(self, wrapped: nn.Module, *, last: bool) -> AbstractContextManager[object]:  # noqa: ARG002
        """The context of a microbatch's forward and backward; gradients are reduced in the `last` one."""
        return nullcontext()

    def backward(self, loss: Tensor) -> None:
        loss.backward()  # type: ignore[no-untyped-call]

    def clip_gradients(
        self, model: nn.Module, *, scale: float, max_norm: float | None, measure: bool
    ) -> float | None:
        """Multiply all gradients by `scale`, and further so that their norm is at most `max_norm`.

        Args:
            model: whose gradients.
            scale: makes what backward left the gradient of the mean loss.
            max_norm: largest norm of the whole scaled gradient over all ranks; None: not clipped.
            measure: the norm is wanted although nothing is clipped.

        Returns:
            The norm of the scaled gradient before clipping, the same on every rank; None when it was not
            measured. When it is not finite the gradients were left as they were.
        """
        gradients = self.local_gradients(model)
        norm = None
        if measure or max_norm is not None:
            norm = scale * math.sqrt(self.total_square(float(get_total_norm(gradients)) ** 2))
            if not math.isfinite(norm):
                return norm
        if norm is not None and max_norm is not None:
            scale *= min(1.0, max_norm / (norm + _NORM_FLOOR))
        if scale != 1.0 and gradients:
            torch._foreach_mul_(gradients, scale)
        return norm

    def local_gradients(self, model: nn.Module) -> list[Tensor]:
        """The part of each gradient that lies on this rank, as plain tensors that share memory with it."""
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    def total_square(self, local: float) -> float:
        """The square of the whole gradient's norm, from that of this rank's part."""
        return local

    def optimizer_step(self, optimizer: Optimizer) -> None:
        optimizer.step()

    def to_device(self, batch: Any) -> Any:
        """`batch` with its tensors on this rank's device, in mappings, tuples and lists to any depth."""
        if isinstance(batch, Tensor):
            return batch.to(self.device, non_blocking=True)
        if isinstance(batch, Mapping):
            return {key: self.to_device(value) for key, value in batch.items()}
        if isinstance(batch, tuple) and hasattr(batch, "_fields"):
            return type(batch)(*(self.to_device(value) for value in batch))
        if isinstance(batch, Sequence) and not isinstance(batch, (str, bytes)):
            return type(batch)(self.to_device(value) for value in batch)  # type: ignore[call-arg]
        return batch

    def close(self) -> None:
        """Leave the other ranks."""
        if self._group is not None:
            self._group.close()
