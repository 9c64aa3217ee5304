"""One forward and backward of one microbatch, as in `distributed.trainer.step`."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves
from torch.utils.hooks import RemovableHandle

from torchdeck.contract.plan.model_profile import ROOT, Event, Trace
from torchdeck.distributed.precision import Precision
from torchdeck.distributed.recipe_loading import Recipe
from torchdeck.distributed.trainer.loss_checks import checked_loss
from torchdeck.tracing.counted import Counted
from torchdeck.tracing.faults import explained
from torchdeck.tracing.parameter_units import UnitMap
from torchdeck.tracing.request import WantedTrace
from torchdeck.tracing.storages import Change, Mark, StorageLog

_WORKSPACE = {
    "convolution": "workspace of convolutions is counted on CPUs (oneDNN) and not on GPUs (cuDNN)",
    "mkldnn_rnn_layer": "workspace of an LSTM is counted on CPUs (oneDNN) and not on GPUs (cuDNN)",
}
"""Operation → note on memory that never passes through Python."""


@dataclass(frozen=True)
class TracedMicrobatch:
    """Result of one forward and backward."""

    trace: Trace
    samples: int
    tokens: float | None
    """Tokens that the loss reports as the base of its mean; None if it counts samples, or only real data
    could tell.
    """
    notes: tuple[str, ...]

    @property
    def peak(self) -> int:
        """Peak bytes, without weights."""
        return int(np.cumsum(self.trace.values).max())


def trace_microbatch(
    wanted: WantedTrace,
    recipe: Recipe,
    model: nn.Module,
    units: UnitMap,
    batch: list[Any],
    samples: int,
    precision: str,
    counted: Counted,
) -> TracedMicrobatch:
    """Run `model` once and record its allocations.

    Args:
        wanted: name of the trace; `model` was brought into that state already.
        recipe: recipe with the loss.
        model: in training mode, without gradients.
        units: units of `model`.
        batch: holds only the batch, and is emptied, as the batch must not outlive the step.
        samples: number of samples in the batch.
        precision: precision of the run.
        counted: is told which unit is reached.

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

    def note(event: Event, unit: int) -> None:
        log.mark(event, unit)
        if event in (Event.FORWARD_END, Event.BACKWARD_END):
            counted.reached(
                unit + 1, "" if event is Event.FORWARD_END else f"{samples:,} samples, back in unit"
            )

    with marked(units, note) as marks, _no_collection(), log:
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
    """Run loss and backward; gradients are left in the parameters. `batch` as above; the result is
    `tokens`.
    """
    device = torch.device("cpu")
    whole = batch.pop()
    with explained("loss(model, batch)", recipe.name):
        with Precision(precision).autocast(device):
            returned = recipe.loss(model, whole)
        counted, tokens = _counted(returned, samples)
        checked = checked_loss(counted, samples)
        if marks is not None:
            marks.begin_backward()
        # in its usual step the trainer does not scale it
        checked.loss.backward()  # type: ignore[no-untyped-call]
        if marks is not None:
            marks.end_backward()
    return tokens


def _counted(returned: Any, samples: int) -> tuple[Any, float | None]:
    """Return the loss's result with a readable number of tokens, and that number if there is one."""
    if not (isinstance(returned, tuple) and len(returned) in (2, 3)):
        return returned, None
    loss, tokens, *metrics = returned
    if isinstance(tokens, FakeTensor):
        return (loss, samples, *metrics), None
    return returned, float(tokens)


def _workspace_notes(operations: Collection[str]) -> tuple[str, ...]:
    """Return notes on memory of `operations`' kernels that a trace does not see."""
    return tuple(note for name, note in _WORKSPACE.items() if name in operations)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Disable garbage collection: when cycles are collected is random, and a rank's peak includes them
    all.
    """
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


# Conversion of storages to events: the purpose of each allocation is known only at the end.


def make_trace(
    wanted: WantedTrace,
    log: StorageLog,
    *,
    inputs: Collection[int],
    gradients: Mapping[int, int],
    weights: Mapping[int, int],
) -> Trace:
    """Return the log of one forward and backward as columns.

    Args:
        wanted: traced settings.
        log: all recorded events.
        inputs: numbers of the batch's storages.
        gradients: numbers of the storages that hold a gradient at the end → the parameter's unit.
        weights: numbers of the parameters' storages → unit.
    """
    logits = _logits_span(log.entries)
    rows: list[tuple[int, int, int]] = []
    named: dict[int, tuple[int, int]] = {
        **{copy: (Event.CAST, weights[source]) for copy, source in log.casts.items() if source in weights},
        **{number: (Event.GRADIENT, unit) for number, unit in gradients.items()},
        **dict.fromkeys(inputs, (Event.INPUT, ROOT)),
    }
    """Number of a storage → kind and unit; of all others given when they are allocated."""
    inside: list[int] = []
    """Units whose forward or backward is going on, outermost first."""
    for position, entry in enumerate(log.entries):
        if isinstance(entry, Mark):
            _follow(inside, entry)
            rows.append((entry.kind, entry.unit, 0))
            continue
        number = entry.storage
        if number not in named:
            kind = Event.LOGITS if position in logits else Event.ACTIVATION
            kind = Event.KERNEL if number in log.kernels else kind
            named[number] = (kind, inside[-1] if inside else ROOT)
        rows.append((*named[number], entry.size))
    return Trace.of_rows(wanted.microbatch, rows, cast=wanted.cast, checkpointing=wanted.checkpointing)


def _follow(inside: list[int], mark: Mark) -> None:
    """Keep `inside` up to date; a unit's backward may end after the next one's began."""
    if mark.kind in (Event.FORWARD_BEGIN, Event.BACKWARD_BEGIN):
        inside.append(mark.unit)
    elif mark.unit in inside:
        del inside[len(inside) - 1 - inside[::-1].index(mark.unit)]


def _logits_span(entries: list[Change | Mark]) -> range:
    """Return the positions after the last unit's forward (the root's if there is no other) and before
    backward.
    """
    marks = [(i, entry) for i, entry in enumerate(entries) if isinstance(entry, Mark)]
    end = next((i for i, mark in marks if mark.kind == Event.BACKWARD_BEGIN), len(entries))
    ends = [(i, mark.unit) for i, mark in marks if i < end and mark.kind == Event.FORWARD_END]
    below = [i for i, unit in ends if unit != ROOT] or [i for i, _ in ends]
    return range(below[-1], end) if below else range(0)


# Hooks on the FSDP units that mark where forward and backward of each begin and end.

Note = Callable[[Event, int], None]
"""Arguments: event, unit."""


class Marks:
    """Notifies `note` of each unit's forward and backward.

    Backward of the root is the whole of it, from `begin_backward` to `end_backward`, where FSDP reduces its
    gradients too. A unit's backward ends when all of its trainable parameters have their gradient. Without
    trainable parameters it ends when the gradient of the unit's input exists. If neither arrives, it ends
    with `end_backward`.
    """

    def __init__(self, units: UnitMap, note: Note) -> None:
        self._units = units
        self._note = note
        self._waiting = [
            {id(parameter) for parameter in members if parameter.requires_grad}
            for members in units.parameters
        ]
        self._open: set[int] = set()
        """Units whose backward began and has not ended."""
        self._handles: list[RemovableHandle] = []
        for index, module in enumerate(units.modules):
            self._attach(index, module, units.parameters[index])

    def begin_backward(self) -> None:
        """Record that the loss exists."""
        self._begin(ROOT)

    def end_backward(self) -> None:
        """Finish. Units that still wait for a gradient end now, the root last."""
        for unit in sorted(self._open, reverse=True):
            self._end(unit)

    def remove(self) -> None:
        """Remove all hooks."""
        for handle in self._handles:
            handle.remove()

    def _attach(self, unit: int, module: nn.Module, parameters: Sequence[nn.Parameter]) -> None:
        handles, trainable = self._handles, self._waiting[unit]

        def before(_: nn.Module, args: Any, kwargs: Any) -> None:
            self._note(Event.FORWARD_BEGIN, unit)
            if not trainable and unit != ROOT:
                self._watch((args, kwargs), lambda: self._end(unit))

        def after(_: nn.Module, __: Any, output: Any) -> None:
            self._note(Event.FORWARD_END, unit)
            if unit != ROOT:
                self._watch(output, lambda: self._begin(unit))

        handles.append(module.register_forward_pre_hook(before, prepend=True, with_kwargs=True))
        handles.append(module.register_forward_hook(after))
        for parameter in parameters:
            if parameter.requires_grad:
                arrived = partial(self._arrived, unit)
                handle = parameter.register_post_accumulate_grad_hook(arrived)  # type: ignore[no-untyped-call]
                handles.append(handle)

    @staticmethod
    def _watch(tree: Any, act: Callable[[], None]) -> None:
        """Call `act` when the gradient of any tensor in `tree` exists."""
        for leaf in tree_leaves(tree):
            if isinstance(leaf, Tensor) and leaf.requires_grad:
                leaf.register_hook(lambda _: act())  # type: ignore[no-untyped-call]

    def _arrived(self, unit: int, parameter: Tensor) -> None:
        waiting = self._waiting[unit]
        waiting.discard(id(parameter))
        if not waiting and unit != ROOT:
            self._end(unit)

    def _begin(self, unit: int) -> None:
        if unit not in self._open:
            self._open.add(unit)
            self._note(Event.BACKWARD_BEGIN, unit)

    def _end(self, unit: int) -> None:
        if unit in self._open:
            self._open.remove(unit)
            self._note(Event.BACKWARD_END, unit)


@contextmanager
def marked(units: UnitMap, note: Note) -> Iterator[Marks]:
    """Hook all units for the duration of the block."""
    marks = Marks(units, note)
    try:
        yield marks
    finally:
        marks.remove()
