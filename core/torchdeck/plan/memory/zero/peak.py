"""Peaks under DeepSpeed ZeRO, from its state and the trace."""

from __future__ import annotations

import numpy as np

from torchdeck.contract.plan.model_profile import ModelProfile
from torchdeck.plan.memory.replay import Replay
from torchdeck.plan.memory.spec import PRECISION_SIZES, StrategySpec
from torchdeck.plan.memory.timeline import Peak, Term, Timeline
from torchdeck.plan.memory.traces import trace_for
from torchdeck.plan.memory.zero.state import ZeroOptions, ZeroState, zero_state
from torchdeck.plan.memory.zero.step import ZeroSizes, ZeroStep

ZERO_NOTE = "ZeRO is predicted as measured with DeepSpeed on CPU ranks; on GPUs it is not validated"


def zero_peaks(profile: ModelProfile, spec: StrategySpec, options: ZeroOptions | None = None) -> list[Peak]:
    """Peaks of each phase, of the device of the rank that keeps the most.

    Args:
        profile: of the model.
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
        # the model beside its flattened or cast copy; for a GPU that is made in the machine's memory
        item = PRECISION_SIZES[spec.precision]
        timeline.spike(Term.PARAMETERS, sum(t.size + item * t.numel for t in profile.parameters))
    timeline.enter("forward")
    _keep(timeline, state, rank, on_host=spec.device == "cpu")
    sizes = _sizes(profile, spec, options, state, rank)
    step = ZeroStep(timeline, sizes, at_once=spec.kind != "zero1", stands=spec.kind == "zero3")
    # all microbatches between the first and the last are alike
    count = min(spec.accumulation, 3)
    for index in range(count):
        timeline.enter("forward")
        # what is read here is held for as long as the next is not there
        timeline.add(Term.INPUTS, replay.inputs if index == 0 else 0)
        step.microbatch(replay, first=index == 0, last=index == count - 1)
    timeline.enter("optimizer")
    step.end()
    return timeline.peaks()


def _sizes(
    profile: ModelProfile, spec: StrategySpec, options: ZeroOptions, state: ZeroState, rank: int
) -> ZeroSizes:
    item = PRECISION_SIZES[spec.precision]
    largest = int(state.update_gradients[rank])
    # flattened in the model's precision, and made fp32 where that is another
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
        own=0,  # they stand all the time
        update=update,
        live=min(whole, item * options.max_live + most),
        gathering=min(whole, item * options.prefetch + most),
        gathers_again=whole > item * options.max_live,
    )


def _keep(timeline: Timeline, state: ZeroState, rank: int, *, on_host: bool) -> None:
    """What stands between steps; a CPU rank's host is its device."""
    for share in (state.device, state.host) if on_host else (state.device,):
        timeline.add(Term.PARAMETERS, int(share.parameters[rank]))
        timeline.add(Term.OPTIMIZER, int(share.optimizer[rank]))
        timeline.add(Term.BUCKETS, int(share.buffers[rank]))
        passing = int(state.passing_gradients[rank]) if share is state.device else 0
        timeline.add(Term.GRADIENTS, int(share.gradients[rank]) - passing)
