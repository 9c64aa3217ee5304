"""One microbatch with whole weights on every rank: single, and DDP with its buckets.

DDP's reducer (torch 2.13, `csrc/distributed/c10d/reducer.cpp`): a gradient is copied into its bucket as soon
as it is there. With `gradient_as_bucket_view` the bucket then is the gradient, and buckets stay between
steps.
Microbatches that are not reduced (`no_sync`) keep gradients outside the buckets.
"""

from __future__ import annotations

from torchdeck.plan.memory.replay import Replay, tell
from torchdeck.plan.memory.spec import StrategySpec
from torchdeck.plan.memory.timeline import Term, Timeline


class ReplicatedStep:
    """Tells the microbatches of one optimizer step of single or ddp."""

    def __init__(self, timeline: Timeline, spec: StrategySpec) -> None:
        self._timeline = timeline
        self._views = spec.kind == "ddp" and spec.gradient_as_bucket_view
        self._kept = 0
        """Bytes of gradients outside of buckets."""

    def microbatch(self, replay: Replay, *, first: bool, last: bool) -> None:
        """Forward and backward; gradients are reduced in the last one."""
        freed = self._frees(first=first, last=last)
        for segment in replay.segments(after_gradient=freed):
            tell(self._timeline, segment)
        self._kept += (1 - freed) * replay.gradients

    def end(self) -> None:
        """The optimizer has stepped: gradients go."""
        self._timeline.add(Term.GRADIENTS, -self._kept)
        self._kept = 0

    def _frees(self, *, first: bool, last: bool) -> int:
        """How often a gradient's bytes are freed when it is there: see `Replay.segments`."""
        if first:
            return 1 if last and self._views else 0
        # added to the one before; which the bucket then takes the place of
        return 2 if last and self._views else 1
