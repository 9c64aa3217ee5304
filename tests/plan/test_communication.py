"""Bytes that ranks send each other: by hand, and by what must hold whatever the numbers."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.values.machines import node
from torchdeck.config.machines.cluster import Cluster
from torchdeck.contract.inventory import Device, NodeInfo
from torchdeck.contract.plan.model_profile import ModelProfile, TensorInfo
from torchdeck.plan.communication import Communication, Links, communication, links_from
from torchdeck.plan.groups import divisors
from torchdeck.plan.memory.spec import Kind, StrategySpec
from torchdeck.plan.placement import NodeShare


def model(*shapes: tuple[int, ...], frozen: int = 0) -> ModelProfile:
    """A model whose tensors are a unit each; the first `frozen` are not trained."""
    tensors = tuple(
        TensorInfo(f"t{index}", shape, "float32", index >= frozen, index)
        for index, shape in enumerate(shapes)
    )
    return ModelProfile("traced", tensors, (), tuple(tensor.name for tensor in tensors), "fp32", ())


def shares(*counts: int) -> list[NodeShare]:
    return [NodeShare(node(f"n{rank}"), rank, count, ()) for rank, count in enumerate(counts)]


def sent(kind: Kind, counts: tuple[int, ...], profile: ModelProfile, **options: Any) -> Communication:
    world_size = sum(counts)
    options.setdefault("shard", {"single": 1, "ddp": 1}.get(kind, world_size))
    spec = StrategySpec(kind, world_size, **options)
    return communication(profile, spec, shares(*counts), Links(100.0, 10.0))


BLOCK = model((8, 5), (4, 10))
"""80 elements: 320 bytes in fp32, 160 in bf16; rows divide by 4."""


@pytest.mark.parametrize(
    ("kind", "options", "bytes_sent"),
    [
        ("ddp", {}, 480),  # 2 · 3/4 · 320
        ("ddp", {"comm_hook": "bf16"}, 240),
        ("ddp", {"comm_hook": "powersgd", "powersgd_rank": 1}, 162),  # 2 · 3/4 · 4 · (8 + 5 + 4 + 10)
        ("ddp", {"comm_hook": "powersgd"}, 480),  # two columns would not halve matrices as small as these
        ("ddp", {"accumulation": 8, "precision": "bf16"}, 480),  # gradients of fp32 weights, once a step
        ("fsdp", {}, 3 * 240),  # two gathers and a reduction of 3/4 · 320
        ("fsdp", {"reshard_after_forward": False}, 2 * 240),
        ("fsdp", {"accumulation": 3}, 7 * 240),  # 3 × 2 gathers, one reduction
        ("fsdp", {"accumulation": 3, "param_precision": "bf16"}, 6 * 120 + 240),
        ("fsdp", {"param_precision": "bf16", "reduce_precision": "bf16"}, 3 * 120),
        ("hsdp", {"shard": 2}, 3 * 160 + 160),  # 1/2 · 320 three times; 2 · 1/2 · 160 across
        ("hsdp", {"shard": 2, "reduce_precision": "bf16"}, 2 * 160 + 80 + 80),
        ("zero1", {"accumulation": 3}, 2 * 240),
        ("zero2", {"accumulation": 3}, 4 * 240),
        ("zero3", {"accumulation": 3}, 9 * 240),
        ("zero3", {"precision": "bf16"}, 3 * 120),
    ],
)
def test_bytes_by_hand(kind: Kind, options: dict[str, Any], bytes_sent: int) -> None:
    """Four ranks and 80 elements."""
    found = sent(kind, (4,), BLOCK, **options)
    assert found.sent == bytes_sent
    assert found.inside.tolist() == [bytes_sent] * 4
    assert found.between.tolist() == [0] * 4


def test_one_rank_sends_nothing() -> None:
    """Nor has it anything to wait for."""
    found = sent("single", (1,), BLOCK)
    assert (found.collectives, found.sent, found.seconds) == ((), 0, 0.0)


def test_rows_that_do_not_divide_are_sent_padded() -> None:
    """FSDP stores 5 rows over 4 ranks as 2 each: 8 rows of 3 elements go round."""
    assert sent("fsdp", (4,), model((5, 3)), reshard_after_forward=False).sent == 2 * 3 * (2 * 3 * 4)


def test_frozen_weights_are_gathered_and_not_reduced() -> None:
    """Only gradients there are go round."""
    half = model((8, 5), (4, 10), frozen=1)
    assert sent("ddp", (4,), half).sent == 240
    assert sent("fsdp", (4,), half).sent == 2 * 240 + 120


def test_a_ring_leaves_a_node_at_its_last_rank() -> None:
    """Ranks 0 to 2 on one node and 3 on another: 2 → 3 and 3 → 0 cross."""
    found = sent("ddp", (3, 1), BLOCK)
    assert found.inside.tolist() == [480, 480, 0, 0]
    assert found.between.tolist() == [0, 0, 480, 480]


def test_groups_inside_nodes_leave_only_the_reduction_between() -> None:
    """2 × 2 on two nodes: gathers stay inside, each rank sums with the one at its place on the other node."""
    found = sent("hsdp", (2, 2), BLOCK, shard=2)
    assert found.inside.tolist() == [480] * 4
    assert found.between.tolist() == [160] * 4
    # inside: 480 at 100 a second; between: both ranks of a node send 160 over its one link, 10 a second
    assert found.seconds == pytest.approx(480 / 100 + 2 * 160 / 10)


def test_the_slowest_link_of_a_ring_counts() -> None:
    """All links of a ring are busy at once; inside a node the slow one does not count."""
    assert sent("ddp", (2, 2), BLOCK).seconds == pytest.approx(480 / 10)
    assert sent("ddp", (4,), BLOCK).seconds == pytest.approx(480 / 100)


def test_an_unknown_speed_is_an_unknown_time() -> None:
    """Unless nothing goes that way."""
    spec = StrategySpec("ddp", 4)
    for links, known in [(Links(), False), (Links(inter_node=1.0), False), (Links(intra_node=1.0), True)]:
        assert (communication(BLOCK, spec, shares(4), links).seconds is not None) == known
    assert communication(BLOCK, spec, shares(2, 2), Links(intra_node=1.0)).seconds is None
    assert communication(BLOCK, spec, shares(1, 1, 1, 1), Links(inter_node=1.0)).seconds == 480.0


def test_ranks_and_strategy_must_be_as_many() -> None:
    """A plan of other ranks is a mistake of the caller's."""
    with pytest.raises(ValueError, match="3 ranks are placed, and the strategy is for 4"):
        communication(BLOCK, StrategySpec("ddp", 4), shares(3), Links())


LAYOUTS = st.lists(st.integers(1, 6), min_size=1, max_size=5)
SHAPES = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9)), min_size=1, max_size=4)


@settings(deadline=None)
@given(LAYOUTS, SHAPES, st.data())
def test_what_holds_for_every_grid(
    counts: list[int], shapes: list[tuple[int, ...]], data: st.DataObject
) -> None:
    """Every rank sends the same in all; hsdp is ddp with groups of one, and fsdp with one group."""
    world_size, profile, layout = sum(counts), model(*shapes), tuple(counts)
    accumulation = data.draw(st.integers(1, 3))
    shard = data.draw(st.sampled_from(divisors(world_size)))
    found = sent("hsdp", layout, profile, shard=shard, accumulation=accumulation)
    assert (found.inside + found.between).tolist() == [found.sent] * world_size
    alone = sent("hsdp", layout, profile, shard=1, accumulation=accumulation)
    replicas = sent("ddp", layout, profile, accumulation=accumulation)
    together = sent("hsdp", layout, profile, shard=world_size, accumulation=accumulation)
    whole = sent("fsdp", layout, profile, accumulation=accumulation)
    for one, other in ((alone, replicas), (together, whole)):
        assert np.array_equal(one.inside, other.inside)
        assert np.array_equal(one.between, other.between)
        assert one.seconds == pytest.approx(other.seconds)


@settings(deadline=None)
@given(LAYOUTS, SHAPES)
def test_zero_1_sends_what_ddp_sends(counts: list[int], shapes: list[tuple[int, ...]]) -> None:
    """A reduction to parts and a gather of them make an all-reduce; stage 3 is half as much again."""
    layout, profile = tuple(counts), model(*shapes)
    whole, first, third = (sent(kind, layout, profile).sent for kind in ("ddp", "zero1", "zero3"))
    assert abs(first - whole) <= 1  # each half is rounded up
    assert abs(third - 1.5 * whole) <= 3


def gpus(name: str, count: int = 2) -> NodeShare:
    devices = tuple(Device(index, "", name, 0) for index in range(count))
    return NodeShare(NodeInfo(name, name, devices, 8), 0, count, devices)


def test_speeds_come_from_the_file_or_from_what_is_published() -> None:
    """NVLink's speed, half of the data sheet's both directions, where every GPU has it."""
    assert links_from(Cluster(), [gpus("NVIDIA H100 80GB HBM3"), gpus("A100-80GB")]) == Links(300e9, None)
    assert links_from(Cluster(), [gpus("H100"), gpus("T4")]) == Links()
    assert links_from(Cluster(), [gpus("H100"), gpus("unheard of")]) == Links()
    assert links_from(Cluster(), shares(2)) == Links()
    written = Cluster(intra_node=7, inter_node=5)
    assert links_from(written, [gpus("H100")]) == Links(7, 5)
