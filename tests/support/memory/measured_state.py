"""What a real rank holds between two steps: bytes of the storages behind its tensors."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.distributed.tensor import DTensor

from support.memory.measured_training import settings_of, strategy_of, trainer_of
from support.ranks.measured_ranks import Job
from torchdeck.distributed.strategies.base import DistributedStrategy


def measure_state(job: Job) -> dict[str, Any]:
    """State of this rank after one step of each of the job's `models`, pairs of a recipe and its options.

    Returns:
        By recipe, "parameters", "gradients" (when the optimizer is about to step), "optimizer" (with the
        moving average of the weights) and "buffers" in bytes, and "parameter": bytes behind each parameter by
        name.
    """
    first: DistributedStrategy | None = None
    found = {}
    for recipe, options in job["models"]:
        one = {"training": {"steps": 1, "microbatch": 2}, **job, "recipe": recipe, "model": options}
        with tempfile.TemporaryDirectory() as folder:
            settings = settings_of(one, Path(folder))
            strategy = strategy_of(settings)
            if first is None:
                first = strategy
                strategy.setup()
            # the ranks join once; groups of a mesh are made for every model
            strategy._group = first.group
            found[recipe] = _after_one_step(trainer_of(one, settings, strategy))
    return found


def _after_one_step(trainer: Any) -> dict[str, Any]:
    model, optimizer = trainer.parts.model, trainer.parts.optimizer
    found: dict[str, Any] = {}

    def look_at_gradients(*_: Any) -> None:
        found["gradients"] = _bytes(p.grad for p in model.parameters() if p.grad is not None)

    optimizer.register_step_pre_hook(look_at_gradients)
    assert trainer.run()
    found["parameters"] = _bytes(model.parameters())
    found["parameter"] = {name: _bytes([parameter]) for name, parameter in model.named_parameters()}
    found["buffers"] = _bytes(model.buffers())
    states = optimizer.state.values()
    kept = [value for state in states for value in state.values() if value is not None]
    averages = [] if trainer.parts.ema is None else trainer.parts.ema.averages.values()
    found["optimizer"] = _bytes([*kept, *averages])
    return found


def _bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of the storages behind `tensors`, one that several share counted once."""
    sizes = {}
    for tensor in tensors:
        local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
        storage = local.untyped_storage()
        # a storage without bytes has no address of its own
        sizes[storage.data_ptr()] = storage.nbytes()
    return sum(sizes.values())
