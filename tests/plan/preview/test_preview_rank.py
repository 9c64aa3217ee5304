"""One rank on request."""

import itertools

import numpy as np
import pytest

from support.values.previews import preview
from torchdeck.data.batch_plan import build_batch_plan, plan_steps
from torchdeck.data.order import SampleOrder, global_batches
from torchdeck.plan.preview.rank_preview import make_rank


def test_its_first_samples_are_those_it_will_read() -> None:
    """The order's own microbatches, step by step."""
    made = preview(2, 2, training={"steps": 9, "microbatch": 3, "accumulation": 2, "seed": 7})
    rank = make_rank(made, 2, microbatches=4)
    batches = itertools.islice(global_batches(SampleOrder(1000, 7), 3 * 2 * 4), 2)
    read = [batch.microbatch(index, 2, world_size=4, accumulation=2) for batch in batches for index in (0, 1)]
    assert [shown.sample_ids for shown in rank.microbatches] == [tuple(ids.tolist()) for ids in read]
    assert [(shown.step, shown.index) for shown in rank.microbatches] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert (rank.rank, rank.placement.node, rank.placement.device) == (2, "n0001", "cuda:0")
    assert (rank.samples, rank.tokens) == (9 * 6, 9 * 6 * 128.0)


def test_with_a_batch_plan_they_are_the_plans() -> None:
    """Balanced as the run is."""
    plan = build_batch_plan(np.arange(1, 65), token_budget=64)
    made = preview(1, 2, batch_plan=plan, training={"epochs": 1, "batch_plan": "/bp", "balance": "tokens"})
    first = next(plan_steps(plan, world_size=2, accumulation=1, balance="tokens"))
    (part,) = first.parts(1)
    assert part is not None
    assert make_rank(made, 1).microbatches[0].sample_ids == tuple(part.sample_ids.tolist())


@pytest.mark.parametrize(
    ("rank", "rows"), [(0, [(0, 3), (0, 1)]), (2, [(6, 3), (2, 1)]), (3, [(9, 1), (3, 0)])]
)
def test_sharded_it_holds_some_rows(rank: int, rows: list[tuple[int, int]]) -> None:
    """Ten rows over four ranks: 3, 3, 3, 1; three over four: one each until none are left."""
    tensors = make_rank(preview(1, 4, distributed={"strategy": "fsdp"}), rank).tensors
    assert [(tensor.first_row, tensor.rows) for tensor in tensors] == rows
    assert tensors[0].size == tensors[0].rows * 4 * 4


def test_replicated_it_holds_all() -> None:
    """Under ddp every rank has every row."""
    rank = make_rank(preview(1, 4), 3)
    assert [tensor.rows for tensor in rank.tensors] == [10, 3]
    assert (rank.shard, rank.shard_index) == (1, 0)


@pytest.mark.parametrize("rank", [-1, 4])
def test_a_rank_that_is_not_there_is_refused(rank: int) -> None:
    """It says which there are."""
    with pytest.raises(ValueError, match="from 0 to 3"):
        make_rank(preview(1, 4), rank)
