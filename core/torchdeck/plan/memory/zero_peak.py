"""Peaks under DeepSpeed ZeRO, computed from its state and the trace."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from torchdeck.contract.plan.model_profile import ROOT, Event, ModelProfile
from torchdeck.plan.memory.memory_timeline import Peak, Term, Timeline
from torchdeck.plan.memory.replay import Replay, Segment, tell, trace_for
from torchdeck.plan.memory.spec import PRECISION_SIZES, StrategySpec
from torchdeck.plan.memory.zero_state import ZeroOptions, ZeroState, zero_state

ZERO_NOTE = "ZeRO is predicted as measured with DeepSpeed on CPU ranks; on GPUs it is not validated"


def zero_peaks(profile: ModelProfile, spec: StrategySpec, options: ZeroOptions | None = None) -> list[Peak]:
    """Return the peaks of each phase on the device of the rank that keeps the most.

    Args:
        profile: profile of the model.
        spec: zero1, zero2 or zero3.
        options: None: DeepSpeed's defaults.

    Raises:
        UntracedError: the profile has no trace for `spec`.
        ValueError: DeepSpeed cannot train this model.
    """
    options = options or ZeroOptions()
    replay = Replay(trace_for(profile, spec))
    state = zero_state(profile.parameters, spec, options=options)
    rank = int(np.argmax(state.device.gradients))
    timeline = Timeline("setup")
    timeline.add(Term.BUFFERS, sum(tensor.size for tensor in profile.buffers))
    if spec.device == "cpu":
        # the model next to its flattened or cast copy; for a GPU the copy is made in host memory
        item = PRECISION_SIZES[spec.engine_precision]
        timeline.spike(Term.PARAMETERS, sum(t.size + item * t.numel for t in profile.parameters))
    timeline.enter("forward")
    _keep(timeline, state, rank, on_host=spec.device == "cpu")
    sizes = _sizes(profile, spec, options, state, rank)
    step = ZeroStep(timeline, sizes, at_once=spec.kind != "zero1", stands=spec.kind == "zero3")
    # all microbatches between the first and the last are alike
    count = min(spec.accumulation, 3)
    for index in range(count):
        timeline.enter("forward")
        # the batch read here is held until the next one exists
        timeline.add(Term.INPUTS, replay.inputs if index == 0 else 0)
        step.microbatch(replay, first=index == 0, last=index == count - 1)
    timeline.enter("optimizer")
    step.end()
    return timeline.peaks()


def _sizes(
    profile: ModelProfile, spec: StrategySpec, options: ZeroOptions, state: ZeroState, rank: int
) -> ZeroSizes:
    item = PRECISION_SIZES[spec.engine_precision]
    largest = int(state.update_gradients[rank])
    # flattened in the model's precision, and converted to fp32 if that differs
    update = largest // PRECISION_SIZES["fp32"] * item + (largest if item != PRECISION_SIZES["fp32"] else 0)
    if spec.kind != "zero3":
        return ZeroSizes(item * options.reduce_bucket, int(state.device.gradients[rank]), update)
    parted = [tensor for tensor in profile.parameters if tensor.numel > options.persistence]
    units = [0] * len(profile.units)
    for tensor in parted:
        units[tensor.unit] += item * tensor.numel
    whole, most = sum(units), max(units)
    return ZeroSizes(
        item * options.reduce_bucket,
        own=0,  # they are allocated all the time
        update=update,
        live=min(whole, item * options.max_live + most),
        ready_barrier=min(whole, item * options.prefetch + most),
        gathers_again=whole > item * options.max_live,
    )


def _keep(timeline: Timeline, state: ZeroState, rank: int, *, on_host: bool) -> None:
    """Add the state kept between steps; a CPU rank's host is its device."""
    for share in (state.device, state.host) if on_host else (state.device,):
        timeline.add(Term.PARAMETERS, int(share.parameters[rank]))
        timeline.add(Term.OPTIMIZER, int(share.optimizer[rank]))
        timeline.add(Term.BUCKETS, int(share.buffers[rank]))
        passing = int(state.passing_gradients[rank]) if share is state.device else 0
        timeline.add(Term.GRADIENTS, int(share.gradients[rank]) - passing)


# One optimizer step under DeepSpeed ZeRO: the trace, with gradients reduced into partitions. The order
# follows DeepSpeed 0.19.8, `runtime/zero/stage_1_and_2.py`: `setup_buckets`,
# `reduce_independent_p_g_buckets_and_remove_grads`, `reduce_ipg_grads`, `copy_grads_in_partition`, `step`;
# and `stage3.py` with `partitioned_param_coordinator.py`: `fetch_sub_module`, `__avg_scatter_grads`.


@dataclass(frozen=True)
class ZeroSizes:
    """Sizes of one rank, in bytes."""

    bucket: int
    """Bucket in which gradients are reduced; larger gradients are reduced in place."""
    own: int
    """Copies of the gradients that reach into the rank's partition; 0 if they go to the host."""
    update: int
    """Temporaries of the optimizer's step for the largest group: one flat tensor, and its fp32 copy."""
    live: int = 0
    """Stage 3: weights gathered at the same time."""
    ready_barrier: int = 0
    """Stage 3: buffer they are gathered into, and copied from one by one."""
    gathers_again: bool = False
    """Stage 3: backward has to gather some weights again."""


class ZeroStep:
    """Adds the microbatches of one step to a timeline, for the rank whose partition's gradients come first.

    Args:
        timeline: timeline to add to.
        sizes: sizes of the rank.
        at_once: gradients are reduced as they arrive, not after the last microbatch as under stage 1.
        stands: the bucket is always allocated, as under stage 3, not only for the gradients.
    """

    def __init__(self, timeline: Timeline, sizes: ZeroSizes, *, at_once: bool, stands: bool = False) -> None:
        self._timeline = timeline
        self._sizes = sizes
        self._at_once = at_once
        self._stands = stands
        self._bucket = 0
        """Bytes of the bucket, while there is one."""
        self._filled = 0
        """Bytes that wait for their reduction, inside or outside of the bucket."""
        self._beside = 0
        """Gradients among these that are too large for the bucket."""
        self._copied = False
        """The rank's own gradients of this microbatch have been copied."""
        self._kept = 0
        """Whole gradients, until they are reduced or, under stage 1, until the step."""
        self._gradients: list[int] = []
        """Stage 1: bytes of each, in the order they came."""

    def microbatch(self, replay: Replay, *, first: bool, last: bool) -> None:
        """Add one forward and backward."""
        self._copied = False
        self._timeline.add(Term.GATHERED, self._sizes.live + self._sizes.ready_barrier)
        for segment in replay.segments():
            self._tell(segment, first=first)
        again = self._sizes.ready_barrier if self._sizes.gathers_again else 0
        self._timeline.add(Term.GATHERED, -self._sizes.live - again)
        if not self._at_once and not last:
            return
        for size in self._gradients:
            self._reduce(size)
        self._gradients = []
        self._flush()
        if self._at_once:
            if not first:  # added to those of earlier microbatches
                self._timeline.add(Term.GRADIENTS, -self._sizes.own)
            self._free_bucket()

    def end(self) -> None:
        """Add the optimizer's step, in which all gradients are freed."""
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
            self._timeline.add(Term.GATHERED, -self._sizes.ready_barrier)
        if segment.mark == Event.BACKWARD_BEGIN and segment.unit == ROOT:
            self._make_bucket()

    def _arrived(self, size: int, *, first: bool) -> None:
        if self._at_once:
            self._reduce(size)
        elif first:
            self._gradients.append(size)
        else:  # added to the previous one
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
        """Pack the ranks' partitions for one all-reduce; then the rank copies its own partition.

        A gradient too large for the bucket is reduced alone and in place.
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
