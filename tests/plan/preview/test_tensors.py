"""Rows that ranks hold: each row of a tensor in one rank of a group, cut as torch cuts them."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.contract.plan.model_profile import TensorInfo
from torchdeck.plan.memory.spec import Kind, StrategySpec
from torchdeck.plan.preview.rank_preview import TensorTable

SPEC = StrategySpec("fsdp", world_size=4, shard=4)
SHAPES = st.lists(st.integers(0, 9), max_size=3).map(tuple)


def table(*shapes: tuple[int, ...]) -> TensorTable:
    tensors = [
        TensorInfo(f"t{i}", shape, "float32", trainable=True, unit=0) for i, shape in enumerate(shapes)
    ]
    return TensorTable(tuple(tensors))


@given(shapes=st.lists(SHAPES, max_size=5), ranks=st.integers(1, 6))
def test_ranks_hold_all_rows_once(shapes: list[tuple[int, ...]], ranks: int) -> None:
    made = table(*shapes)
    spec = StrategySpec("fsdp", world_size=ranks, shard=ranks)
    parts = [held for rank in range(ranks) if (held := made.held(spec, rank)) is not None]
    assert len(parts) == ranks
    for index, tensor in enumerate(made.tensors):
        assert sum(int(held.sizes[index]) for held in parts) == tensor.size
        assert sum(int(held.rows[index]) for held in parts) == (tensor.shape[0] if tensor.shape else 1)


@given(length=st.integers(1, 40), ranks=st.integers(1, 8))
def test_rows_are_cut_as_torch_cuts_them(length: int, ranks: int) -> None:
    made = table((length, 3))
    chunks = torch.arange(length).chunk(ranks)
    for rank in range(ranks):
        held = made.held(StrategySpec("fsdp", world_size=ranks, shard=ranks), rank)
        assert held is not None
        rows = chunks[rank].tolist() if rank < len(chunks) else []
        first = int(held.first_row[0])
        assert list(range(first, first + int(held.rows[0]))) == rows


@pytest.mark.parametrize(("kind", "shard", "rows"), [("ddp", 1, 8), ("fsdp", 4, 2), ("hsdp", 2, 4)])
def test_strategies_hold_what_they_shard(kind: Kind, shard: int, rows: int) -> None:
    held = table((8, 2)).held(replace(SPEC, kind=kind, shard=shard), 3)
    assert held is not None
    assert held.rows.tolist() == [rows]


def test_zero_holds_no_rows() -> None:
    assert table((8, 2)).held(replace(SPEC, kind="zero3"), 0) is None
