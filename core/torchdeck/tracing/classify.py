"""From storages to events: what each allocation was for, known only when all is over."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from torchdeck.contract.plan.model_profile import ROOT, Event, Trace
from torchdeck.tracing.request import WantedTrace
from torchdeck.tracing.storages import Change, Mark, StorageLog


def make_trace(
    wanted: WantedTrace,
    log: StorageLog,
    *,
    inputs: Collection[int],
    gradients: Mapping[int, int],
    weights: Mapping[int, int],
) -> Trace:
    """The log of one forward and backward as columns.

    Args:
        wanted: what was traced.
        log: all that happened.
        inputs: numbers of the batch's storages.
        gradients: numbers of the storages that hold a gradient in the end → the parameter's unit.
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
    """Positions after the last unit's forward (the root's where there is no other) and before backward."""
    marks = [(i, entry) for i, entry in enumerate(entries) if isinstance(entry, Mark)]
    end = next((i for i, mark in marks if mark.kind == Event.BACKWARD_BEGIN), len(entries))
    ends = [(i, mark.unit) for i, mark in marks if i < end and mark.kind == Event.FORWARD_END]
    below = [i for i, unit in ends if unit != ROOT] or [i for i, _ in ends]
    return range(below[-1], end) if below else range(0)
