"""Peak of each phase of a rank, and of all ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from torchdeck.contract.plan.model_profile import ITEM_SIZES, ROOT, Event, ModelProfile, TensorInfo, Trace
from torchdeck.plan.memory.comm_hooks import kept_bytes, passing_bytes
from torchdeck.plan.memory.context import Largest, context_bytes, overhead, uncertainty
from torchdeck.plan.memory.fsdp_step import FsdpStep
from torchdeck.plan.memory.memory_timeline import Peak, Term, Timeline
from torchdeck.plan.memory.replay import Replay, UntracedError, tell, trace_for
from torchdeck.plan.memory.sharding import local_bytes, padded_elements, unit_sizes
from torchdeck.plan.memory.spec import FULLY_SHARDED, ZERO, StrategySpec
from torchdeck.plan.memory.training_state import sharded_state
from torchdeck.plan.memory.zero_peak import zero_peaks
from torchdeck.plan.memory.zero_state import ZeroOptions

_COMING_AND_GOING = "with offload_parameters DeepSpeed decides which weights are on the device at a time"


@dataclass(frozen=True)
class PredictedPeak:
    """Requirements of the ranks that keep the most, in bytes."""

    peaks: tuple[Peak, ...]
    """Peak of each phase, in order."""
    uncertainty: int
    """Bytes that may additionally be allocated at the peak."""
    overhead: int
    """Bytes that a process may take beyond what is allocated."""

    @property
    def margin(self) -> int:
        """Bytes of the device that may be needed additionally."""
        return self.uncertainty + self.overhead

    @property
    def highest(self) -> Peak:
        """Phase that decides."""
        return max(self.peaks, key=lambda peak: peak.total)

    def less_optimizer(self, spared: int) -> Peak:
        """Return the highest peak of a rank that keeps `spared` bytes less of optimizer state, which only
        setup does not include.
        """
        return max((_spare(peak, spared) for peak in self.peaks), key=lambda peak: peak.total)


def predict_peak(profile: ModelProfile, spec: StrategySpec, zero: ZeroOptions | None = None) -> PredictedPeak:
    """Predict peaks of the first rank of a shard group, or of the fullest one under ZeRO, which no other
    exceeds.

    Args:
        profile: profile of the model.
        spec: training settings.
        zero: DeepSpeed's options; None: those of a run.

    Raises:
        UntracedError: the profile has no trace for `spec`, or offloaded weights are not predicted.
        ValueError: ZeRO cannot train this model.
    """
    if spec.kind in ZERO:
        if spec.offload_parameters:
            raise UntracedError(_COMING_AND_GOING)
        peaks = zero_peaks(profile, spec, zero or ZeroOptions.of(spec))
    else:
        optimizer = int(sharded_state(profile, spec, [0]).optimizer[0])
        peaks = simulate(profile, spec, optimizer).peaks()
    context = context_bytes(spec)
    peaks = [_with(peak, Term.CONTEXT, context) for peak in peaks]
    sizes = unit_sizes(profile, spec) if spec.kind in FULLY_SHARDED else ()
    largest = _largest(trace_for(profile, spec))
    tensors = max(peak.total for peak in peaks) - context
    return PredictedPeak(
        tuple(peaks), uncertainty(spec, sizes, largest, tensors), overhead(spec, sizes, tensors)
    )


def _largest(trace: Trace) -> Largest:
    kernels = trace.values[trace.kinds == Event.KERNEL]
    return Largest(int(trace.values.max(initial=0)), int(kernels.max(initial=0)))


def _with(peak: Peak, term: Term, size: int) -> Peak:
    terms = {**peak.terms, term: size} if size else peak.terms
    return Peak(peak.phase, peak.total + size, terms)


def _spare(peak: Peak, spared: int) -> Peak:
    kept = peak.terms.get(Term.OPTIMIZER, 0)
    if not spared or not kept:
        return peak
    terms: Mapping[Term, int] = {**peak.terms, Term.OPTIMIZER: kept - spared}
    return Peak(peak.phase, peak.total - spared, terms)


# Setup and one optimizer step of a rank as a timeline of allocations.

_BROADCAST_LIMIT = 250 * 2**20
"""Bytes that DDP combines for one broadcast of its weights (`broadcast_bucket_size`), of which two may be in
flight at once (`broadcast_coalesced`, csrc/distributed/c10d/comm.cpp).
"""


def simulate(profile: ModelProfile, spec: StrategySpec, optimizer: int) -> Timeline:
    """Return the allocations and frees of a rank from its start to the end of a step that follows others.

    Args:
        profile: profile of the model.
        spec: single, ddp, fsdp or hsdp.
        optimizer: bytes of the rank's optimizer state.

    Raises:
        UntracedError: the profile has no trace for `spec`.
    """
    replay = Replay(trace_for(profile, spec))
    timeline = Timeline("setup")
    timeline.add(Term.BUFFERS, sum(tensor.size for tensor in profile.buffers))
    _set_up(timeline, profile, spec)
    timeline.enter("forward")
    timeline.add(Term.OPTIMIZER, 0 if spec.state_on_host else optimizer)
    _step(timeline, profile, spec, replay)
    return timeline


def _set_up(timeline: Timeline, profile: ModelProfile, spec: StrategySpec) -> None:
    if spec.kind in FULLY_SHARDED:
        _shard(timeline, profile, spec)
        return
    timeline.add(Term.PARAMETERS, sum(tensor.size for tensor in profile.parameters))
    if spec.kind == "ddp":
        tensors = [*profile.parameters, *profile.buffers]
        whole = sum(tensor.size for tensor in tensors)
        timeline.spike(Term.BUCKETS, min(whole, 2 * _BROADCAST_LIMIT))
        gradients = _trainable(profile)
        buckets = sum(tensor.size for tensor in gradients)
        timeline.add(Term.GRADIENTS if spec.gradient_as_bucket_view else Term.BUCKETS, buckets)
        timeline.add(Term.BUCKETS, kept_bytes(gradients, spec))


def _shard(timeline: Timeline, profile: ModelProfile, spec: StrategySpec) -> None:
    """Add sharding of the units one after the other; a unit's whole weights are freed once all of its shards
    exist.

    The model is built on the CPU. From there `fully_shard` moves one unit at a time to a GPU
    (`_move_states_to_device`).
    """
    order = [*range(1, len(profile.units)), ROOT]
    whole, stored = dict.fromkeys(order, 0), dict.fromkeys(order, 0)
    for tensor in profile.parameters:
        whole[tensor.unit] += tensor.size
        stored[tensor.unit] += _stored(tensor, spec)
    on_cpu = spec.device == "cpu"
    timeline.add(Term.PARAMETERS, sum(whole.values()) if on_cpu else 0)
    for unit in order:
        timeline.add(Term.PARAMETERS, 0 if on_cpu else whole[unit])
        timeline.add(Term.PARAMETERS, stored[unit])
        timeline.add(Term.PARAMETERS, -whole[unit])
        timeline.add(Term.PARAMETERS, -stored[unit] if spec.state_on_host else 0)


def _trainable(profile: ModelProfile) -> list[TensorInfo]:
    """Return the parameters that have gradients."""
    return [tensor for tensor in profile.parameters if tensor.trainable]


def _stored(tensor: TensorInfo, spec: StrategySpec) -> int:
    return padded_elements(tensor, spec.shard) * ITEM_SIZES[tensor.dtype]


def _step(timeline: Timeline, profile: ModelProfile, spec: StrategySpec, replay: Replay) -> None:
    step = (
        FsdpStep(timeline, spec, unit_sizes(profile, spec))
        if spec.kind in FULLY_SHARDED
        else ReplicatedStep(timeline, spec)
    )
    # all microbatches between the first and the last are alike
    count = min(spec.accumulation, 3)
    for index in range(count):
        timeline.enter("forward")
        # the loader keeps a step's first batch to the end of the step; each later one replaces the previous
        timeline.add(Term.INPUTS, replay.inputs if index < 2 else 0)
        last = index == count - 1
        passing = passing_bytes(_trainable(profile), spec) if last and spec.kind == "ddp" else 0
        timeline.add(Term.BUCKETS, passing)
        step.microbatch(replay, first=index == 0, last=last)
        timeline.add(Term.BUCKETS, -passing)
    timeline.enter("optimizer")
    timeline.spike(Term.OPTIMIZER, _optimizer_copies(profile, spec))
    step.end()


def _optimizer_copies(profile: ModelProfile, spec: StrategySpec) -> int:
    """Return the bytes that an update allocates and frees again.

    Fused Adam works in place. SGD adds weight decay to a copy of the gradient: on the CPU of one parameter at
    a time, on GPUs of all (torch/optim/sgd.py: `_single_tensor_sgd`, `_multi_tensor_sgd`); vectors have none.
    """
    if spec.optimizer != "sgd" or not spec.weight_decay or spec.state_on_host:
        return 0
    first = np.zeros(1, dtype=np.int64)
    decayed = [tensor for tensor in _trainable(profile) if len(tensor.shape) >= 2]
    sizes = [int(local_bytes([tensor], spec.shard, first)[0]) for tensor in decayed]
    return sum(sizes) if spec.device == "cuda" else max(sizes, default=0)


# One microbatch with whole weights on every rank: single, and DDP with its buckets. DDP's reducer (torch
# 2.13, `csrc/distributed/c10d/reducer.cpp`): a gradient is copied into its bucket as soon as it exists. With
# `gradient_as_bucket_view` the bucket then is the gradient, and buckets stay between steps. Microbatches that
# are not reduced (`no_sync`) keep gradients outside the buckets.


class ReplicatedStep:
    """Adds the microbatches of one optimizer step of single or ddp to a timeline."""

    def __init__(self, timeline: Timeline, spec: StrategySpec) -> None:
        self._timeline = timeline
        self._views = spec.kind == "ddp" and spec.gradient_as_bucket_view
        self._kept = 0
        """Bytes of gradients outside of buckets."""

    def microbatch(self, replay: Replay, *, first: bool, last: bool) -> None:
        """Add forward and backward; gradients are reduced in the last one."""
        freed = self._frees(first=first, last=last)
        for segment in replay.segments(after_gradient=freed):
            tell(self._timeline, segment)
        self._kept += (1 - freed) * replay.gradients

    def end(self) -> None:
        """Free the gradients after the optimizer's step."""
        self._timeline.add(Term.GRADIENTS, -self._kept)
        self._kept = 0

    def _frees(self, *, first: bool, last: bool) -> int:
        """Return how often a gradient's bytes are freed once it exists: see `Replay.segments`."""
        if first:
            return 1 if last and self._views else 0
        # added to the previous one, which the bucket then replaces
        return 2 if last and self._views else 1
