"""Setup and one optimizer step of a rank as a timeline of allocations."""

from __future__ import annotations

import numpy as np

from torchdeck.contract.plan.model_profile import ITEM_SIZES, ROOT, ModelProfile, TensorInfo
from torchdeck.plan.memory.comm_hooks import kept_bytes, passing_bytes
from torchdeck.plan.memory.fsdp_step import FsdpStep
from torchdeck.plan.memory.replay import Replay
from torchdeck.plan.memory.replicated_step import ReplicatedStep
from torchdeck.plan.memory.sharding import local_bytes, padded_elements
from torchdeck.plan.memory.spec import FULLY_SHARDED, StrategySpec
from torchdeck.plan.memory.timeline import Term, Timeline
from torchdeck.plan.memory.traces import trace_for
from torchdeck.plan.memory.unit_sizes import unit_sizes

_BROADCAST_LIMIT = 250 * 2**20
"""Bytes that DDP puts together for one broadcast of its weights (`broadcast_bucket_size`), of which two may
be on their way at once (`broadcast_coalesced`, csrc/distributed/c10d/comm.cpp)."""


def simulate(profile: ModelProfile, spec: StrategySpec, optimizer: int) -> Timeline:
    """What a rank allocates and frees from its start to the end of a step that follows others.

    Args:
        profile: of the model.
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
    """Units are cut one after the other; a unit's whole weights go when all of its shards are there.

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
    """Parameters that have gradients."""
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
        # the loader keeps a step's first batch to the end of the step; later ones make room for each other
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
    """What an update allocates and frees again.

    Fused Adam works in place. SGD adds weight decay to a copy of the gradient: on the CPU of one parameter at
    a time, on GPUs of all (torch/optim/sgd.py: `_single_tensor_sgd`, `_multi_tensor_sgd`); vectors have none.
    """
    if spec.optimizer != "sgd" or not spec.weight_decay or spec.state_on_host:
        return 0
    first = np.zeros(1, dtype=np.int64)
    decayed = [tensor for tensor in _trainable(profile) if len(tensor.shape) >= 2]
    sizes = [int(local_bytes([tensor], spec.shard, first)[0]) for tensor in decayed]
    return sum(sizes) if spec.device == "cuda" else max(sizes, default=0)
