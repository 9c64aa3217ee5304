"""Memory of all ranks, in groups."""

from dataclasses import replace

import pytest

from support.values.small_profile import profile, trace
from torchdeck.contract.plan.prediction import PredictedMemory
from torchdeck.plan.memory.context import context_bytes, overhead
from torchdeck.plan.memory.peak import predict_peak, simulate
from torchdeck.plan.memory.predict import memory_notes, predict_memory
from torchdeck.plan.memory.sharding import UnitSizes, unit_sizes
from torchdeck.plan.memory.spec import Kind, StrategySpec
from torchdeck.plan.memory.training_state import sharded_state


def fsdp(ranks: int) -> StrategySpec:
    return StrategySpec("fsdp", ranks, shard=ranks)


def members(group: PredictedMemory) -> list[int]:
    return [rank for first, last in group.ranks for rank in range(first, last + 1)]


@pytest.mark.parametrize(
    "spec", [StrategySpec("ddp", 5), fsdp(1), fsdp(7), fsdp(64), StrategySpec("hsdp", 12, shard=4)], ids=str
)
def test_every_rank_stands_once_with_its_own_state(spec: StrategySpec) -> None:
    """Groups are a partition, and each rank's state and peak are those of a simulation of its own."""
    groups = predict_memory(profile(), spec)
    assert sorted(rank for group in groups for rank in members(group)) == list(range(spec.world_size))
    state = sharded_state(profile(), spec)
    for group in groups:
        for rank in members(group):
            optimizer = int(state.optimizer[rank % spec.shard])
            alone = max(peak.total for peak in simulate(profile(), spec, optimizer).peaks())
            assert group.state["optimizer"] == optimizer
            assert group.peak_bytes == alone + context_bytes(spec)


def test_terms_add_up_largest_first() -> None:
    """To the peak, by the names that people read."""
    (group,) = predict_memory(profile(trace(1000)), replace(fsdp(2), microbatch=1000))
    assert sum(group.terms.values()) == group.peak_bytes
    assert list(group.terms.values()) == sorted(group.terms.values(), reverse=True)
    assert list(group.terms)[:2] == ["context", "activations"]
    assert set(group.state) == {"parameters", "gradients", "optimizer"}


def test_devices_that_differ_part_ranks() -> None:
    """Each has the capacity and verdict of its own device; one of an unknown size has none."""
    spec = StrategySpec("ddp", 4)
    peak = predict_peak(profile(), spec).highest.total
    groups = predict_memory(profile(), spec, [2 * peak, peak - 1, None, 2 * peak], [None, None, None, peak])
    found = {rank: group for group in groups for rank in members(group)}
    assert [found[rank].verdict for rank in range(4)] == ["fits", "does not fit", "unknown", "tight"]
    assert [found[rank].capacity_bytes for rank in range(4)] == [2 * peak, peak - 1, None, 2 * peak]
    assert found[3].free_bytes == peak


def test_devices_must_be_as_many_as_ranks() -> None:
    """Three for four."""
    with pytest.raises(ValueError, match="3 devices are described for 4 ranks"):
        predict_memory(profile(), StrategySpec("ddp", 4), [1, 2, 3])


def test_range_allows_for_a_buffer_of_gloo_freed_late() -> None:
    """One gathered unit where gloo shards; without gloo and without shards only scratch memory."""
    width = {
        spec: predict_peak(profile(), spec).uncertainty
        for spec in (fsdp(2), replace(fsdp(2), backend="nccl"), fsdp(1), StrategySpec("ddp", 2))
    }
    late, without, alone, whole = width.values()
    assert late == pytest.approx(4000, abs=500)
    assert max(without, alone, whole) < 500


def test_a_cpu_rank_takes_more_than_its_tensors() -> None:
    """Its allocator keeps what was freed: a machine that has just the tensors' peak is tight, not enough."""
    model, spec = profile(trace(10**6)), replace(fsdp(2), microbatch=10**6)
    (group,) = predict_memory(model, spec)
    tensors = group.peak_bytes - context_bytes(spec)
    assert group.high_bytes - group.peak_bytes >= tensors // 3
    for capacity, verdict in ((1.1, "tight"), (1.2, "tight"), (1.4, "fits")):
        (group,) = predict_memory(model, spec, [int(capacity * group.peak_bytes)] * 2)
        assert group.verdict == verdict, capacity
    (gpu,) = predict_memory(model, replace(spec, device="cuda", backend="nccl"))
    assert gpu.high_bytes - gpu.peak_bytes < tensors // 8


@pytest.mark.parametrize(("tensors", "more"), [(30, 30), (118, 118), (300, 128), (900, 300)])
def test_malloc_may_keep_all_of_a_little_and_a_third_of_much(tensors: int, more: int) -> None:
    """In MiB; on a GPU nothing of the kind."""
    size = tensors * 2**20
    assert overhead(StrategySpec("ddp", 2), (), size) == more * 2**20
    assert overhead(StrategySpec("ddp", 2, device="cuda"), (), size) == 0


def test_what_nobody_measured_is_said() -> None:
    """A CUDA device's own memory, and ZeRO there."""
    model = profile()
    assert memory_notes(model, fsdp(2)) == ()
    assert "not validated" in memory_notes(model, replace(fsdp(2), device="cuda"))[0]
    assert memory_notes(model, StrategySpec("zero1", 2)) == ()
    assert "ZeRO" in memory_notes(model, StrategySpec("zero1", 2, device="cuda"))[-1]


def test_zero_is_one_peak_for_ranks_that_keep_different_gradients() -> None:
    """That of the fullest; terms add up, and each rank's own state stands beside it."""
    stages: list[Kind] = ["zero1", "zero2", "zero3"]
    for stage in stages:
        groups = predict_memory(profile(), StrategySpec("ddp", 4).with_kind(stage))
        assert all(sum(group.terms.values()) == group.peak_bytes for group in groups)
        assert len({group.peak_bytes for group in groups}) == 1
        kept = {group.state["gradients"] for group in groups}
        assert (len(kept) > 1) == (stage != "zero3")


def test_offloaded_state_is_the_hosts() -> None:
    """A device is spared weights, gradients and optimizer state; what the host holds is said."""
    model, on_gpu = profile(), replace(fsdp(2), device="cuda", backend="nccl")
    kept, offloaded = (predict_memory(model, spec)[0] for spec in (on_gpu, replace(on_gpu, cpu_offload=True)))
    assert set(offloaded.state.values()) == {0}
    assert {"parameters", "optimizer"} <= kept.terms.keys() - offloaded.terms.keys()
    spared = kept.state["parameters"] + kept.state["optimizer"]
    largest_part = max(unit.brought for unit in unit_sizes(model, replace(on_gpu, cpu_offload=True)))
    # what is gathered comes by way of a copy on the device, of at most two units at a time
    assert spared - 2 * largest_part <= kept.peak_bytes - offloaded.peak_bytes
    assert "are in the machine's main memory" in memory_notes(model, replace(on_gpu, cpu_offload=True))[-1]


def test_a_rank_without_a_gpu_offloads_to_where_it_is() -> None:
    """The prediction is the same, and nothing is said."""
    offloaded = replace(fsdp(2), cpu_offload=True)
    assert predict_memory(profile(), offloaded) == predict_memory(profile(), fsdp(2))
    assert memory_notes(profile(), offloaded) == ()


def test_smaller_gradients_take_memory_of_their_own() -> None:
    """PowerSGD remembers what it left out of every gradient; bf16 is a copy that passes."""
    model, ddp = profile(), StrategySpec("ddp", 2)
    whole, remembered, cut = (
        simulate(model, replace(ddp, comm_hook=hook), 0).peaks() for hook in ("none", "powersgd", "bf16")
    )
    gradients = sum(tensor.size for tensor in model.parameters if tensor.trainable)
    forward = [next(peak.total for peak in peaks if peak.phase == "forward") for peaks in (whole, remembered)]
    assert forward[1] - forward[0] >= gradients
    backward = [next(peak.total for peak in peaks if peak.phase == "backward") for peaks in (whole, cut)]
    assert backward[1] - backward[0] == gradients // 2


@pytest.mark.parametrize(
    ("unit", "count", "tensors", "more"),
    [(16, 8, 200, 420), (4, 8, 900, 300), (4, 16, 900, 448), (48, 4, 500, 300)],
)
def test_malloc_keeps_more_of_units_that_come_and_go(unit: int, count: int, tensors: int, more: int) -> None:
    """In MiB: by the tensors or all units, whichever is less; units over 32 MiB are given back."""
    mib = 2**20
    sizes = [UnitSizes(unit * mib, 0, 0, unit * mib, 0, 0, 0)] * count
    assert overhead(fsdp(2), sizes, tensors * mib) == more * mib
    assert overhead(fsdp(1), sizes, tensors * mib) == overhead(StrategySpec("ddp", 2), (), tensors * mib)
