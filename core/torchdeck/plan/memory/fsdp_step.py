"""One microbatch under FSDP2: the trace with gathers, prefetches and reductions at the units' markers.

The order follows torch 2.13, `torch/distributed/fsdp/_fully_shard`: `_fsdp_param_group.py` (unshard,
wait_for_unshard, post_backward), `_fsdp_collectives.py` (foreach_all_gather, foreach_reduce) and
`_fsdp_state.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from torchdeck.contract.plan.model_profile import ROOT, Event
from torchdeck.plan.memory.memory_timeline import Term, Timeline
from torchdeck.plan.memory.replay import Replay, Segment, tell
from torchdeck.plan.memory.sharding import UnitSizes
from torchdeck.plan.memory.spec import StrategySpec


class FsdpStep:
    """Adds the microbatches of one optimizer step to a timeline.

    Args:
        timeline: timeline to add to.
        spec: fsdp or hsdp.
        sizes: sizes of the units.
    """

    def __init__(self, timeline: Timeline, spec: StrategySpec, sizes: Sequence[UnitSizes]) -> None:
        self._timeline = timeline
        self._spec = spec
        self._sizes = sizes
        self._gathered: set[int] = set()
        """Units whose weights are together."""
        self._prefetched: set[int] = set()
        """Units in a gather's output that are not copied out yet."""
        self._output = 0
        """Output of the last gather in forward: freed when the next one is copied out, or when forward ends.
        """
        self._order: list[int] = []
        """Units by the end of their forward; what backward prefetches by."""
        self._fresh: dict[int, int] = {}
        """Bytes of whole gradients of this microbatch, by unit."""
        self._kept: dict[int, int] = {}
        """Bytes of whole gradients of the microbatches before, by unit."""
        self._scattered = 0
        """Input of the last reduce-scatter, kept until the next."""
        self._last = True
        self._in_loss = True
        """Backward has not come to what the model returned."""

    def microbatch(self, replay: Replay, *, first: bool, last: bool) -> None:
        """Add forward and backward; gradients are reduced in the last one."""
        self._last = last
        self._order, self._in_loss = [], True
        adds = not first and not self._upcasts
        for segment in replay.segments(after_gradient=1 if adds else 0):
            tell(self._timeline, segment)
            for unit, size in segment.gradients.items():
                self._fresh[unit] = self._fresh.get(unit, 0) + size
            self._at(segment)
        self._timeline.add(Term.BUCKETS, -self._scattered)
        self._scattered = 0
        self._let_go()

    def end(self) -> None:
        """Free the gradients after the optimizer's step."""
        if self._spec.state_on_host:
            return
        reduced = sum(unit.gradient for unit in self._sizes)
        self._timeline.add(Term.GRADIENTS, -reduced)

    @property
    def _upcasts(self) -> bool:
        """Whether unreduced gradients are kept in a precision other than the one they arrive in."""
        return self._spec.reduce_size != self._spec.param_size

    def _at(self, segment: Segment) -> None:
        unit = segment.unit
        if segment.mark == Event.FORWARD_BEGIN:
            self._gather_forward(unit)
        elif segment.mark == Event.FORWARD_END:
            self._end_forward(unit)
        elif segment.mark == Event.BACKWARD_BEGIN:
            if unit == ROOT and self._in_loss:
                self._in_loss = False
            else:
                self._begin_backward(unit)
        elif segment.mark == Event.BACKWARD_END:
            self._end_backward(unit)

    def _gather_forward(self, unit: int) -> None:
        if unit in self._gathered:
            return
        size = self._sizes[unit].gathered
        if self._spec.shard > 1:
            self._all_gather(unit)
            # the previous gather's output is kept until this one is copied out
            self._timeline.add(Term.GATHERED, -self._output)
            self._output = size
        self._timeline.add(Term.GATHERED, size)
        self._gathered.add(unit)

    def _all_gather(self, unit: int) -> None:
        sizes = self._sizes[unit]
        self._timeline.add(Term.GATHERED, sizes.brought)
        self._timeline.add(Term.GATHERED, sizes.cast)
        self._timeline.add(Term.GATHERED, sizes.gathered)
        self._timeline.spike(Term.BUCKETS, all_gather_copy(self._spec, sizes.gathered))
        self._timeline.add(Term.GATHERED, -sizes.cast - sizes.brought)

    def _end_forward(self, unit: int) -> None:
        self._order.append(unit)
        if self._spec.reshard_after_forward:
            self._free(unit)
        if unit == ROOT:
            self._timeline.add(Term.GATHERED, -self._output)
            self._output = 0

    def _begin_backward(self, unit: int) -> None:
        size = self._sizes[unit].gathered
        if unit not in self._gathered:
            if unit not in self._prefetched and self._spec.shard > 1:
                self._all_gather(unit)
            self._timeline.add(Term.GATHERED, size)
            if self._spec.shard > 1:
                self._timeline.add(Term.GATHERED, -size)
            self._prefetched.discard(unit)
            self._gathered.add(unit)
        self._prefetch(unit)

    def _prefetch(self, unit: int) -> None:
        """Gather the unit whose forward ended before that of `unit`."""
        where = self._order.index(unit) if unit in self._order else 0
        if not where or self._spec.shard == 1:
            return
        target = self._order[where - 1]
        if target not in self._gathered and target not in self._prefetched:
            self._all_gather(target)
            self._prefetched.add(target)

    def _end_backward(self, unit: int) -> None:
        fresh = self._fresh.pop(unit, 0)
        if self._upcasts and unit in self._kept:  # added to the accumulated one
            self._timeline.add(Term.GRADIENTS, -fresh)
            fresh = 0
        self._free(unit)
        if self._last:
            self._reduce(unit, fresh + self._kept.pop(unit, 0))
            return
        if self._upcasts and fresh:
            whole = fresh * self._spec.reduce_size // self._spec.param_size
            self._timeline.add(Term.GRADIENTS, whole)
            self._timeline.add(Term.GRADIENTS, -fresh)
            fresh = whole
        self._kept[unit] = self._kept.get(unit, 0) + fresh

    def _let_go(self) -> None:
        """At the end of backward, also free units that it did not reach because they are frozen."""
        for unit in list(self._gathered):
            self._free(unit)
        for unit in self._prefetched:
            self._timeline.add(Term.GATHERED, -self._sizes[unit].gathered)
        self._prefetched.clear()

    def _free(self, unit: int) -> None:
        if unit in self._gathered:
            self._gathered.remove(unit)
            self._timeline.add(Term.GATHERED, -self._sizes[unit].gathered)

    def _reduce(self, unit: int, whole: int) -> None:
        timeline, sizes = self._timeline, self._sizes[unit]
        timeline.add(Term.BUCKETS, -self._scattered)
        timeline.add(Term.BUCKETS, sizes.scattered)
        self._scattered = sizes.scattered
        timeline.spike(Term.BUCKETS, sizes.padded)
        timeline.add(Term.GRADIENTS, -whole)
        timeline.add(Term.GRADIENTS, sizes.reduced)
        if self._spec.shard > 1:
            timeline.spike(Term.BUCKETS, reduce_scatter_copy(self._spec, sizes.scattered))
        if sizes.gradient != sizes.reduced:
            timeline.add(Term.GRADIENTS, sizes.gradient)
            timeline.add(Term.GRADIENTS, -sizes.reduced)
        if self._spec.state_on_host:
            timeline.add(Term.GRADIENTS, -sizes.gradient)


# Allocations of gloo's process group in the course of a collective. Measured in allocator events of real
# ranks (torch 2.13; the same at 2, 3 and 4): all-gather and reduce-scatter copy through a flat buffer of
# their larger side; all-reduce and broadcast work in place. NCCL needs no copies.


def all_gather_copy(spec: StrategySpec, gathered: int) -> int:
    """Return the bytes held during an all-gather whose output is `gathered` bytes."""
    return gathered if spec.backend == "gloo" else 0


def reduce_scatter_copy(spec: StrategySpec, scattered: int) -> int:
    """Return the bytes held during a reduce-scatter whose input is `scattered` bytes."""
    return scattered if spec.backend == "gloo" else 0
