"""A trace split at its markers, ready to be replayed with what a strategy adds in between."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from torchdeck.contract.plan.model_profile import ROOT, Event, Trace
from torchdeck.plan.memory.timeline import Sizes, Term, Timeline

_TERMS = {
    Event.INPUT: Term.INPUTS,
    Event.ACTIVATION: Term.ACTIVATIONS,
    Event.LOGITS: Term.LOGITS,
    Event.GRADIENT: Term.GRADIENTS,
    Event.CAST: Term.CASTS,
}


@dataclass(frozen=True)
class Segment:
    """Events up to a marker; the last segment has no marker."""

    terms: npt.NDArray[np.int8]
    values: Sizes
    gradients: dict[int, int]
    """Bytes of the gradients allocated in this segment, by unit."""
    mark: Event | None
    unit: int


class Replay:
    """One microbatch as it was traced.

    The batch is excluded: the loader keeps it longer than forward and backward do. The root's backward begins
    twice: with the loss, and when it reaches the model's outputs. The latter is the point before the first
    gradient of the root's weights or the backward of another unit.

    Attributes:
        inputs: bytes of the batch.
        gradients: bytes of all gradients.
    """

    def __init__(self, trace: Trace) -> None:
        kept = (trace.kinds != Event.INPUT) & ((trace.values != 0) | (trace.kinds < Event.INPUT))
        kinds, units = trace.kinds[kept], trace.units[kept]
        where = _end_of_loss(kinds, units)
        self._kinds = np.insert(kinds, where, np.int8(Event.BACKWARD_BEGIN))
        self._units = np.insert(units, where, np.int32(ROOT))
        self._values = np.insert(trace.values[kept], where, np.int64(0))
        self.inputs = int(trace.values[(trace.kinds == Event.INPUT) & (trace.values > 0)].sum())
        self.gradients = int(trace.values[trace.kinds == Event.GRADIENT].sum())

    def segments(self, *, after_gradient: int = 0) -> Iterator[Segment]:
        """Iterate over the segments of the microbatch.

        Args:
            after_gradient: how often a gradient's bytes are freed as soon as it exists: 1 if it is added to
                another
                gradient or copied away, 2 if the gradient it was added to is freed as well.
        """
        kinds, units, values = self._expanded(after_gradient)
        lookup = np.zeros(max(Event) + 1, dtype=np.int8)
        for kind, term in _TERMS.items():
            lookup[kind] = term
        terms = lookup[kinds]
        gradients = np.flatnonzero(kinds == Event.GRADIENT).tolist()
        bounds = [*np.flatnonzero(kinds < Event.INPUT).tolist(), len(kinds)]
        start = 0
        for bound in bounds:
            part = slice(start, bound)
            marked = bound < len(kinds)
            inside = gradients[bisect_left(gradients, start) : bisect_left(gradients, bound)]
            yield Segment(
                terms=terms[part],
                values=values[part],
                gradients=_by_unit(inside, units, values),
                mark=Event(int(kinds[bound])) if marked else None,
                unit=int(units[bound]) if marked else ROOT,
            )
            start = bound + 1

    def _expanded(
        self, after_gradient: int
    ) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        where = np.flatnonzero(self._kinds == Event.GRADIENT)
        if not after_gradient or not len(where):
            return self._kinds, self._units, self._values
        return (
            np.insert(self._kinds, where + 1, self._kinds[where]),
            np.insert(self._units, where + 1, self._units[where]),
            np.insert(self._values, where + 1, -after_gradient * self._values[where]),
        )


def _end_of_loss(kinds: npt.NDArray[np.int8], units: npt.NDArray[np.int32]) -> int:
    """Return the position where backward leaves the loss, or the end of a trace without backward."""
    begins = np.flatnonzero((kinds == Event.BACKWARD_BEGIN) & (units == ROOT))
    if not len(begins):
        return len(kinds)
    after = int(begins[0]) + 1
    own = (kinds[after:] == Event.GRADIENT) & (units[after:] == ROOT)
    ends = np.flatnonzero(own | (kinds[after:] == Event.BACKWARD_BEGIN))
    return after + int(ends[0]) if len(ends) else after


def tell(timeline: Timeline, segment: Segment) -> None:
    """Add `segment` to `timeline`; a marker of the root's backward begins that phase."""
    timeline.extend(segment.terms, segment.values)
    if segment.mark == Event.BACKWARD_BEGIN and segment.unit == ROOT:
        timeline.enter("backward")


def _by_unit(places: Sequence[int], units: npt.NDArray[np.int32], values: Sizes) -> dict[int, int]:
    """Return the bytes of the events at `places`, by unit."""
    found: dict[int, int] = {}
    for place in places:
        unit = int(units[place])
        found[unit] = found.get(unit, 0) + int(values[place])
    return found
