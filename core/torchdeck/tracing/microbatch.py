"""One forward and backward of one microbatch, as `distributed.trainer.step` does it."""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves

from torchdeck.contract.plan.model_profile import Trace
from torchdeck.distributed.precision import Precision
from torchdeck.distributed.trainer.losses import checked_loss
from torchdeck.recipes.loader import Recipe
from torchdeck.tracing.classify import make_trace
from torchdeck.tracing.faults import explained
from torchdeck.tracing.marks import Marks, marked
from torchdeck.tracing.request import WantedTrace
from torchdeck.tracing.storages import StorageLog
from torchdeck.tracing.units import UnitMap

_WORKSPACE = {
    "convolution": "kernels of convolutions take workspace of their own while they run, which is not counted",
    "mkldnn_rnn_layer": "an LSTM keeps a workspace until backward, not counted here: real memory is higher",
}
"""Operation → note: what is not seen, as it never passes through Python."""


@dataclass(frozen=True)
class TracedMicrobatch:
    """What one forward and backward told."""

    trace: Trace
    samples: int
    tokens: float | None
    """That the loss says it is a mean over; None where it counts samples, or only real data could tell."""
    notes: tuple[str, ...]

    @property
    def peak(self) -> int:
        """Bytes at once, weights not counted."""
        return int(np.cumsum(self.trace.values).max())


def trace_microbatch(
    wanted: WantedTrace,
    recipe: Recipe,
    model: nn.Module,
    units: UnitMap,
    batch: list[Any],
    samples: int,
    precision: str,
) -> TracedMicrobatch:
    """Run `model` once and tell what was allocated.

    Args:
        wanted: what the trace is to be called; `model` was brought into that state already.
        recipe: its loss.
        model: in training mode, without gradients.
        units: of `model`.
        batch: holds the batch alone, and is emptied, as it must not outlive the step.
        samples: in the batch.
        precision: of the run.

    Raises:
        RecipeError, TracingError: the loss or backward fails.
    """
    log = StorageLog()
    weights = {log.number(p): units.of_tensor[id(p)] for p in model.parameters()}
    for buffer in model.buffers():
        log.number(buffer)
    data = [leaf for leaf in tree_leaves(batch) if isinstance(leaf, Tensor)]
    log.allocated(data)
    inputs = {log.number(tensor) for tensor in data}
    del data
    with marked(units, log.mark) as marks, _no_collection(), log:
        tokens = run_microbatch(recipe, model, batch, samples, precision, marks)
    parameters = [p for p in model.parameters() if p.grad is not None]
    gradients = {log.number(p.grad): units.of_tensor[id(p)] for p in parameters if p.grad is not None}
    trace = make_trace(wanted, log, inputs=inputs, gradients=gradients, weights=weights)
    for parameter in parameters:
        parameter.grad = None
    return TracedMicrobatch(trace, samples, tokens, _workspace_notes(log.operations))


def run_microbatch(
    recipe: Recipe,
    model: nn.Module,
    batch: list[Any],
    samples: int,
    precision: str,
    marks: Marks | None = None,
) -> float | None:
    """Loss and backward; gradients are left in the parameters. `batch` as above; the result is `tokens`."""
    device = torch.device("cpu")
    whole = batch.pop()
    with explained("loss(model, batch)", recipe.name):
        with Precision(precision).autocast(device):
            returned = recipe.loss(model, whole)
        counted, tokens = _counted(returned, samples)
        checked = checked_loss(counted, samples)
        if marks is not None:
            marks.begin_backward()
        # the trainer's usual step multiplies it by nothing
        checked.loss.backward()  # type: ignore[no-untyped-call]
        if marks is not None:
            marks.end_backward()
    return tokens


def _counted(returned: Any, samples: int) -> tuple[Any, float | None]:
    """What the loss returned, with a number of tokens that can be read, and that number if there is one."""
    if not (isinstance(returned, tuple) and len(returned) in (2, 3)):
        return returned, None
    loss, tokens, *metrics = returned
    if isinstance(tokens, FakeTensor):
        return (loss, samples, *metrics), None
    return returned, float(tokens)


def _workspace_notes(operations: Collection[str]) -> tuple[str, ...]:
    """What kernels of `operations` take that a trace does not see."""
    return tuple(note for name, note in _WORKSPACE.items() if name in operations)


@contextmanager
def _no_collection() -> Iterator[None]:
    """No garbage collection: when cycles are found is chance, and a rank's peak has them all."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
