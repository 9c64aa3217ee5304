"""A trace split at its markers, ready to be replayed with what a strategy adds in between."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from torchdeck.contract.plan.model_profile import ROOT, Event, ModelProfile, Trace
from torchdeck.plan.memory.memory_timeline import Sizes, Term, Timeline
from torchdeck.plan.memory.spec import StrategySpec

_TERMS = {
    Event.INPUT: Term.INPUTS,
    Event.ACTIVATION: Term.ACTIVATIONS,
    Event.LOGITS: Term.LOGITS,
    Event.GRADIENT: Term.GRADIENTS,
    Event.CAST: Term.CASTS,
    Event.KERNEL: Term.KERNELS,
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
                another gradient or copied away, 2 if the gradient it was added to is freed as well.
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


# The trace that a strategy requires, at any microbatch size.


class UntracedError(ValueError):
    """The profile does not cover these settings; the message names them."""


def trace_for(profile: ModelProfile, spec: StrategySpec) -> Trace:
    """Return the trace for `spec`, derived from two others if its microbatch was not traced. Memory of CPU
    kernels is left out on GPUs.

    Every allocation of a forward and backward is affine in the number of samples (a share per sample, and a
    constant share). So two traces with the same sequence of events determine any other.

    Raises:
        UntracedError: no trace it could be derived from exists.
    """
    trace = _traced(profile, spec)
    if spec.device == "cpu":
        return trace
    kept = trace.kinds != Event.KERNEL
    return replace(trace, kinds=trace.kinds[kept], units=trace.units[kept], values=trace.values[kept])


def _traced(profile: ModelProfile, spec: StrategySpec) -> Trace:
    if profile.precision != spec.precision:
        raise UntracedError(f"the model was traced in {profile.precision}, not in {spec.precision}")
    exact = profile.trace(spec.microbatch, cast=spec.cast, checkpointing=spec.checkpointing)
    if exact is not None:
        return exact
    alike = sorted(
        (t for t in profile.traces if (t.cast, t.checkpointing) == (spec.cast, spec.checkpointing)),
        key=lambda trace: abs(trace.microbatch - spec.microbatch),
    )
    if not alike:
        raise UntracedError(f"the model was not traced with {_settings(spec)}")
    if len(alike) < 2:
        raise UntracedError(
            f"the model was traced with {_settings(spec)} only at microbatch {alike[0].microbatch}, so "
            f"{spec.microbatch} cannot be predicted"
        )
    return _affine(alike[0], alike[1], spec.microbatch)


def _affine(near: Trace, far: Trace, microbatch: int) -> Trace:
    near, far = _merged(near), _merged(far)
    if not (np.array_equal(near.kinds, far.kinds) and np.array_equal(near.units, far.units)):
        raise UntracedError(
            f"microbatches of {near.microbatch} and {far.microbatch} run different operations, so "
            f"{microbatch} cannot be predicted"
        )
    steps = (microbatch - near.microbatch) / (far.microbatch - near.microbatch)
    values = near.values + np.rint((far.values - near.values) * steps).astype(np.int64)
    if np.any(np.sign(values) * np.sign(near.values) < 0):
        raise UntracedError(f"the memory of microbatch {microbatch} does not follow from the traces")
    return Trace(microbatch, near.cast, near.checkpointing, near.kinds, near.units, values)


def _merged(trace: Trace) -> Trace:
    """Return the trace with consecutive frees merged into one per kind. Their order is arbitrary if a cache
    is emptied (autocast's copies of weights), and no peak depends on it.
    """
    freed = trace.values < 0
    # each allocation and marker is a run of its own; a free belongs to the run of the preceding free
    runs = np.cumsum(~(freed & np.concatenate(([False], freed[:-1]))))
    keys = runs * (max(Event) + 1) + trace.kinds
    distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    values = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(values, inverse.reshape(-1), trace.values)
    units = np.where(freed[first], ROOT, trace.units[first]).astype(np.int32)
    return Trace(trace.microbatch, trace.cast, trace.checkpointing, trace.kinds[first], units, values)


def _settings(spec: StrategySpec) -> str:
    weights = "weights cast before the forward" if spec.cast else "weights as they are"
    return f"{weights} and {'' if spec.checkpointing else 'no '}activation checkpointing"
