"""ZeRO's state from shapes: values that real DeepSpeed ranks held, and the source's loops written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.contract.plan.model_profile import TensorInfo
from torchdeck.plan.memory.spec import Kind, StrategySpec
from torchdeck.plan.memory.zero_state import ZeroOptions, ZeroShare, zero_state

SHAPES = [(7, 5), (13,), (3,), (129, 11), (2, 2, 2), (1,), (40, 40)]
SMALL = ZeroOptions(reduce_bucket=1000, persistence=0, vectors_apart=False)


def tensors(shapes: list[tuple[int, ...]], frozen: tuple[int, ...] = ()) -> list[TensorInfo]:
    return [
        TensorInfo(str(index), shape, "float32", index not in frozen, 0) for index, shape in enumerate(shapes)
    ]


def spec(kind: Kind, world_size: int, **more: object) -> StrategySpec:
    return StrategySpec(kind=kind, world_size=world_size, shard=world_size, **more)  # type: ignore[arg-type]  # as tests name them


def parts(share: ZeroShare) -> list[list[int]]:
    return [part.tolist() for part in (share.parameters, share.gradients, share.optimizer, share.buffers)]


@pytest.mark.parametrize(
    ("kind", "precision", "expected"),
    [
        ("zero1", "fp32", [[12336] * 3, [5880, 12112, 6420], [12340] * 3, [0] * 3]),
        ("zero1", "fp16", [[12336] * 3, [5880, 12112, 6420], [12340] * 3, [0] * 3]),
        ("zero2", "bf16", [[6168] * 3, [2940, 6056, 3210], [12340] * 3, [0] * 3]),
        ("zero3", "fp32", [[4116] * 3, [4116] * 3, [12352] * 3, [4000] * 3]),
        ("zero3", "bf16", [[2058] * 3, [2058] * 3, [12352] * 3, [2000] * 3]),
    ],
)
def test_bytes_held_by_three_real_ranks(kind: Kind, precision: str, expected: list[list[int]]) -> None:
    """Without offload all of it is on the device."""
    state = zero_state(tensors(SHAPES), spec(kind, 3, precision=precision), options=SMALL)
    assert parts(state.device) == expected
    assert parts(state.host) == [[0] * 3] * 4


def test_offload_moves_gradients_and_optimizer_to_the_host() -> None:
    """Values of three real bf16 ranks; stage 3 keeps its 16-bit gradients there too."""
    second = zero_state(tensors(SHAPES), spec("zero2", 3, precision="bf16", offload=True), options=SMALL)
    assert parts(second.device) == [[6168] * 3, [0] * 3, [0] * 3, [3200] * 3]
    assert parts(second.host) == [[0] * 3, [4112] * 3, [12340] * 3, [2056 + 3200] * 3]
    third = zero_state(tensors(SHAPES), spec("zero3", 3, precision="bf16", offload=True), options=SMALL)
    assert parts(third.device) == [[2058] * 3, [0] * 3, [0] * 3, [2000] * 3]
    assert parts(third.host) == [[0] * 3, [6174] * 3, [12352] * 3, [0] * 3]


def test_defaults_keep_small_parameters_gathered_and_a_bucket_of_half_a_billion_elements() -> None:
    """Every parameter of the small model stays gathered: padded to the ranks, beside its own piece."""
    state = zero_state(tensors(SHAPES), spec("zero3", 4))
    gathered = sum(-(-tensor.numel // 4) * 4 for tensor in tensors(SHAPES))
    assert state.device.parameters.tolist() == [4 * (gathered + gathered // 4)] * 4
    assert state.device.buffers.tolist() == [2_000_000_000] * 4


@settings(deadline=None)
@given(
    shapes=st.lists(st.lists(st.integers(0, 40), max_size=2).map(tuple), min_size=1, max_size=12),
    world_size=st.integers(1, 9),
    apart=st.booleans(),
    frozen=st.sets(st.integers(0, 11)).map(tuple),
)
def test_partitions_as_deepspeed_walks_them(
    shapes: list[tuple[int, ...]], world_size: int, apart: bool, frozen: tuple[int, ...]
) -> None:
    """`get_partition_info`, parameter by parameter, for every rank."""
    parameters = tensors(shapes, frozen)
    trained = [tensor for tensor in parameters if tensor.trainable and tensor.numel]
    if not trained:
        with pytest.raises(ValueError, match="no parameter to train"):
            zero_state(parameters, spec("zero2", world_size))
        return
    options = ZeroOptions(vectors_apart=apart)
    state = zero_state(parameters, spec("zero2", world_size), options=options)
    groups = [[t.numel for t in trained if (len(t.shape) >= 2) == matrix] for matrix in (True, False)]
    walked = groups if apart else [[t.numel for t in trained]]
    expected = [
        4 * sum(_walk(group, world_size, rank) for group in walked if group) for rank in range(world_size)
    ]
    assert state.device.gradients.tolist() == expected
    some = zero_state(parameters, spec("zero2", world_size), [world_size - 1], options)
    assert some.device.gradients.tolist() == expected[-1:]


def _walk(group: list[int], world_size: int, rank: int) -> int:
    """Whole parameters that reach into the rank's partition, and its padding, in elements."""
    block = 2 * world_size
    size = (sum(group) + block - 1) // block * block // world_size
    start, end, current, whole = size * rank, size * (rank + 1), 0, 0
    for numel in group:
        if start <= current < end or current < start < current + numel:
            whole += numel
        current += numel
    return whole + max(0, end - max(start, current))


@pytest.mark.parametrize(("kind", "update"), [("zero1", 6160), ("zero2", 6160), ("zero3", 6168)])
def test_gradients_on_their_way_to_the_optimizer(kind: Kind, update: int) -> None:
    """Values of two real bf16 ranks, inside the optimizer's step."""
    state = zero_state(tensors(SHAPES), spec(kind, 2, precision="bf16"), options=SMALL)
    assert state.update_gradients.tolist() == [update] * 2


@pytest.mark.parametrize(("limit", "partitions"), [(10**9, 1), (20, 2), (5, 3), (1, 4)])
def test_sub_groups_of_stage_three(limit: int, partitions: int) -> None:
    """A flat partition is closed by the parameter that reaches the limit; each has a step count."""
    parameters = tensors([(4,), (3,), (20,), (6,)])
    options = ZeroOptions(sub_group=limit, vectors_apart=False)
    state = zero_state(parameters, spec("zero3", 1), options=options)
    assert state.device.optimizer.tolist() == [33 * 12 + 4 * partitions]


def test_what_cannot_be_computed_is_said() -> None:
    """Another strategy, a rank that is not there, parameters that cannot be flattened."""
    with pytest.raises(ValueError, match="ddp is not ZeRO"):
        zero_state(tensors([(3,)]), StrategySpec(kind="ddp", world_size=2))
    with pytest.raises(ValueError, match="ranks go from 0 to 1"):
        zero_state(tensors([(3,)]), spec("zero1", 2), [2])
    mixed = [TensorInfo("a", (3,), "float32", True, 0), TensorInfo("b", (3,), "bfloat16", True, 0)]
    with pytest.raises(ValueError, match="bfloat16, float32"):
        zero_state(mixed, spec("zero1", 2))


def test_thousands_of_ranks_are_a_few_vector_operations() -> None:
    """Each group is padded to a multiple of two elements a rank; partitions add up to it."""
    parameters = tensors([(4096, 4096)] * 200 + [(4096,)] * 65)
    state = zero_state(parameters, spec("zero1", 8192))
    assert state.device.optimizer.shape == (8192,)
    padded = 200 * 4096 * 4096 + 17 * 2 * 8192
    assert np.all(state.device.parameters == 4 * padded)
    assert int(state.device.optimizer.sum()) == 12 * padded + 8 * 8192


@pytest.mark.parametrize("offload", [False, True])
@pytest.mark.parametrize("kind", ["zero1", "zero2"])
def test_an_average_of_the_weights_is_whole_on_every_device(kind: Kind, offload: bool) -> None:
    """Stages 1 and 2 leave the model whole, so 4 bytes a trainable parameter, offloaded optimizer or not."""
    shapes = tensors([(3, 5), (7,)])
    plain, averaged = (zero_state(shapes, spec(kind, 2, offload=offload, ema=ema)) for ema in (False, True))
    assert (averaged.device.total - plain.device.total).tolist() == [4 * 22] * 2
    assert averaged.host.total.tolist() == plain.host.total.tolist()
