"""One optimizer step under DeepSpeed ZeRO: the trace with gradients on their way into partitions.

The order follows DeepSpeed 0.19.8, `runtime/zero/stage_1_and_2.py`: `setup_buckets`,
`reduce_independent_p_g_buckets_and_remove_grads`, `reduce_ipg_grads`, `copy_grads_in_partition`, `step`; and
`stage3.py` with `partitioned_param_coordinator.py`: `fetch_sub_module`, `__avg_scatter_grads`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from torchdeck.contract.plan.model_profile import ROOT, Event
from torchdeck.plan.memory.replay import Replay, Segment, tell
from torchdeck.plan.memory.timeline import Term, Timeline


@dataclass(frozen=True)
class ZeroSizes:
    """Of one rank, in bytes."""

    bucket: int
    """What gradients are reduced in; larger ones are reduced where they are."""
    own: int
    """Copies of the gradients that reach into the rank's partition; 0 where they go to the host."""
    update: int
    """What the optimizer's step makes of them for the largest group: one flat tensor, and that in fp32."""
    live: int = 0
    """Stage 3: weights that are gathered at a time."""
    gathering: int = 0
    """Stage 3: what they are gathered into, and copied from one by one."""
    gathers_again: bool = False
    """Stage 3: backward does not find all weights gathered."""


class ZeroStep:
    """Tells the microbatches of one step, of the rank whose partition's gradients come first.

    Args:
        timeline: where to.
        sizes: of the rank.
        at_once: gradients are reduced as they come, not after the last microbatch, as under stage 1.
        stands: the bucket is there all the time, as under stage 3, and not for the gradients alone.
    """

    def __init__(self, timeline: Timeline, sizes: ZeroSizes, *, at_once: bool, stands: bool = False) -> None:
        self._timeline = timeline
        self._sizes = sizes
        self._at_once = at_once
        self._stands = stands
        self._bucket = 0
        """Bytes of the bucket, while there is one."""
        self._filled = 0
        """Bytes that wait for their reduction, in the bucket or beside it."""
        self._beside = 0
        """Of these, gradients too large for the bucket."""
        self._copied = False
        """The rank's own gradients of this microbatch have been copied."""
        self._kept = 0
        """Whole gradients, until they are reduced or, under stage 1, until the step."""
        self._gradients: list[int] = []
        """Stage 1: bytes of each, in the order they came."""

    def microbatch(self, replay: Replay, *, first: bool, last: bool) -> None:
        """Forward and backward."""
        self._copied = False
        self._timeline.add(Term.GATHERED, self._sizes.live + self._sizes.gathering)
        for segment in replay.segments():
            self._tell(segment, first=first)
        again = self._sizes.gathering if self._sizes.gathers_again else 0
        self._timeline.add(Term.GATHERED, -self._sizes.live - again)
        if not self._at_once and not last:
            return
        for size in self._gradients:
            self._reduce(size)
        self._gradients = []
        self._flush()
        if self._at_once:
            if not first:  # added to those of the microbatches before
                self._timeline.add(Term.GRADIENTS, -self._sizes.own)
            self._free_bucket()

    def end(self) -> None:
        """The optimizer's step, in which all gradients go."""
        self._timeline.add(Term.GRADIENTS, -self._kept)
        self._kept = 0
        self._free_bucket()
        self._timeline.spike(Term.GRADIENTS, self._sizes.update)
        self._timeline.add(Term.GRADIENTS, -self._sizes.own)

    def _tell(self, segment: Segment, *, first: bool) -> None:
        start = 0
        for index in np.flatnonzero((segment.terms == Term.GRADIENTS) & (segment.values > 0)).tolist():
            part = slice(start, index + 1)
            self._timeline.extend(segment.terms[part], segment.values[part])
            self._arrived(int(segment.values[index]), first=first)
            start = index + 1
        tell(self._timeline, replace(segment, terms=segment.terms[start:], values=segment.values[start:]))
        if segment.mark == Event.FORWARD_END and segment.unit == ROOT and not self._sizes.gathers_again:
            self._timeline.add(Term.GATHERED, -self._sizes.gathering)
        if segment.mark == Event.BACKWARD_BEGIN and segment.unit == ROOT:
            self._make_bucket()

    def _arrived(self, size: int, *, first: bool) -> None:
        if self._at_once:
            self._reduce(size)
        elif first:
            self._gradients.append(size)
        else:  # added to the one before
            self._timeline.add(Term.GRADIENTS, -size)

    def _reduce(self, size: int) -> None:
        if self._filled + size > self._sizes.bucket:
            self._flush()
        self._filled += size
        if size > self._sizes.bucket:
            self._beside += size
        else:
            self._timeline.add(Term.GRADIENTS, -size)

    def _flush(self) -> None:
        """Ranks' parts are put together for one all-reduce; then the rank takes a copy of its own.

        A gradient too large for the bucket is reduced alone, and where it is.
        """
        self._timeline.spike(Term.BUCKETS, self._filled - self._beside)
        if self._filled and not self._copied:
            self._timeline.add(Term.GRADIENTS, self._sizes.own)
            self._copied = True
        if self._at_once:
            self._timeline.add(Term.GRADIENTS, -self._beside)
        else:
            self._kept += self._beside
        self._filled = self._beside = 0

    def _make_bucket(self) -> None:
        if not self._bucket and not self._stands:
            self._bucket = self._sizes.bucket
            self._timeline.add(Term.BUCKETS, self._bucket)

    def _free_bucket(self) -> None:
        self._timeline.add(Term.BUCKETS, -self._bucket)
        self._bucket = 0
