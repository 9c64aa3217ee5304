"""Bytes of every rank's state, by values; real ranks are asked in tests/distributed."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.values.small_profile import profile
from torchdeck.contract.plan.model_profile import TensorInfo
from torchdeck.plan.memory.sharding import local_bytes, local_rows, padded_elements
from torchdeck.plan.memory.spec import StrategySpec
from torchdeck.plan.memory.training_state import sharded_state


def fsdp(ranks: int, **more: object) -> StrategySpec:
    return StrategySpec("fsdp", ranks, shard=ranks, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rows", "ranks", "each"),
    [(10, 4, [3, 3, 3, 1]), (2, 4, [1, 1, 0, 0]), (5, 4, [2, 2, 1, 0]), (8, 2, [4, 4])],
)
def test_rows_are_cut_as_torch_chunk_does(rows: int, ranks: int, each: list[int]) -> None:
    """Full chunks first, then what is left, then nothing."""
    assert local_rows(rows, ranks, np.arange(ranks)).tolist() == each


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 5)), min_size=1, max_size=6), st.integers(1, 50))
def test_shards_are_the_whole_and_fit_into_what_is_stored(shapes: list[tuple[int, int]], ranks: int) -> None:
    """All ranks' rows add up to the tensor, and none has more than each of them stores."""
    tensors = [
        TensorInfo(f"t{i}", shape, "float32", trainable=True, unit=0) for i, shape in enumerate(shapes)
    ]
    local = local_bytes(tensors, ranks, np.arange(ranks))
    stored = 4 * sum(padded_elements(tensor, ranks) for tensor in tensors)
    assert local.sum() == sum(tensor.size for tensor in tensors)
    assert local.max() <= stored
    assert local[0] == stored


def test_state_by_hand() -> None:
    """Rows of 10, 50 and 50 over 4 ranks: 3 and 13 are stored, the last rank has 1 and 11 of them."""
    state = sharded_state(profile(), fsdp(4))
    stored = 4 * (3 * 10 + 2 * 13 * 20)
    assert state.parameters.tolist() == state.gradients.tolist() == [stored] * 4
    last = 4 * (1 * 10 + 2 * 11 * 20)
    assert state.optimizer.tolist() == [2 * stored + 3 * 4] * 3 + [2 * last + 3 * 4]
    assert state.buffers.tolist() == [16] * 4


@pytest.mark.parametrize(
    ("optimizer", "momentum", "factor", "steps"),
    [("adam", 0.0, 2, 12), ("sgd", 0.9, 1, 0), ("sgd", 0.0, 0, 0)],
)
def test_optimizers_differ(optimizer: str, momentum: float, factor: int, steps: int) -> None:
    """Adam keeps two moments and a step count a parameter, SGD one moment where it has momentum."""
    whole = sum(tensor.size for tensor in profile().parameters)
    spec = StrategySpec("single", 1, optimizer=optimizer, momentum=momentum)
    assert sharded_state(profile(), spec).optimizer.tolist() == [factor * whole + steps]


def test_frozen_parameters_are_stored_and_not_trained() -> None:
    """No gradient, no moments."""
    whole = profile()
    frozen = tuple(dataclasses.replace(tensor, trainable=False) for tensor in whole.parameters)
    state = sharded_state(dataclasses.replace(whole, parameters=frozen), fsdp(2))
    assert state.parameters[0] > 0
    assert state.gradients.tolist() == state.optimizer.tolist() == [0, 0]


def test_some_ranks_of_many() -> None:
    """Only those asked for are computed, and they equal those of the whole list."""
    spec = fsdp(8192)
    everyone = sharded_state(profile(), spec).optimizer
    assert (
        sharded_state(profile(), spec, [0, 9, 10, 8191]).optimizer.tolist()
        == everyone[[0, 9, 10, 8191]].tolist()
    )


def test_ranks_outside_the_group_are_refused() -> None:
    """Index 2 of 2, and strategies that are computed elsewhere."""
    with pytest.raises(ValueError, match="go from 0 to 1, not 0 to 2"):
        sharded_state(profile(), fsdp(2), [0, 2])
    with pytest.raises(ValueError, match="state of zero1 is not computed here"):
        sharded_state(profile(), StrategySpec("zero1", 2))
