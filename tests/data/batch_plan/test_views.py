"""Walking a plan: by epoch, from a place, one microbatch at a time."""

import pickle

import numpy as np
import pytest

from torchdeck.data.batch_plan import BatchPlan, BatchPlanError, build_batch_plan


@pytest.fixture
def plan() -> BatchPlan:
    lengths = [(index * 31) % 50 + 1 for index in range(9000)]
    return build_batch_plan(lengths, token_budget=60, epochs=2)


def test_names_of_a_microbatch(plan: BatchPlan) -> None:
    """A view has what the columns say, as plain numbers; its ids are a part of the column, not a copy."""
    columns = plan.epoch_columns(1)
    microbatch = plan.microbatch(1, 3)
    begin, end = columns.offsets[3], columns.offsets[4]
    assert microbatch.sample_ids.tolist() == columns.sample_ids[begin:end].tolist()
    assert np.shares_memory(microbatch.sample_ids, columns.sample_ids)
    assert (microbatch.index, microbatch.batch_size) == (3, end - begin)
    assert (microbatch.max_len, microbatch.bucket_id) == (columns.max_len[3], columns.bucket_id[3])
    assert (microbatch.tokens, microbatch.padded_tokens) == (columns.tokens[3], columns.padded_tokens[3])
    assert type(microbatch.max_len) is int
    assert microbatch.packs is None


def test_totals(plan: BatchPlan) -> None:
    """The plan counts microbatches by epoch and over all."""
    assert plan.epochs == 2
    assert plan.total_microbatches == plan.microbatches(0) + plan.microbatches(1)
    assert len(list(plan.iter_epoch(0))) == plan.microbatches(0) > 4096


def test_iter_from_goes_on_into_the_next_epoch(plan: BatchPlan) -> None:
    """From a place on come its epoch's rest and all later epochs; the end of an epoch is a place, too."""
    last = plan.microbatches(0)
    places = [(epoch, index, microbatch.index) for epoch, index, microbatch in plan.iter_from(0, last - 2)]
    assert places[:4] == [(0, last - 2, last - 2), (0, last - 1, last - 1), (1, 0, 0), (1, 1, 1)]
    assert len(places) == 2 + plan.microbatches(1)
    assert next(plan.iter_from(0, last))[:2] == (1, 0)
    assert list(plan.iter_from(2, 0)) == []
    assert len(list(plan.iter_from(0))) == plan.total_microbatches


def test_places_that_are_not_there(plan: BatchPlan) -> None:
    """Each is refused when it is asked for, with what there is."""
    with pytest.raises(BatchPlanError, match="no epoch 2: the plan has 2, counted from 0"):
        plan.iter_epoch(2)
    with pytest.raises(BatchPlanError, match="no epoch -1"):
        plan.microbatches(-1)
    with pytest.raises(BatchPlanError, match=r"no microbatch \d+ to continue from: epoch 0 has"):
        plan.iter_from(0, plan.microbatches(0) + 1)
    with pytest.raises(BatchPlanError, match="no epoch 2"):
        plan.iter_from(2, 1)
    with pytest.raises(BatchPlanError, match="no microbatch -1"):
        plan.microbatch(0, -1)


def test_a_view_travels_alone(plan: BatchPlan) -> None:
    """A microbatch sent to a loader's worker takes its own ids along, not the column."""
    microbatch = plan.microbatch(0, 0)
    sent = pickle.dumps(microbatch)
    assert len(sent) < 1000
    assert pickle.loads(sent).sample_ids.tolist() == microbatch.sample_ids.tolist()  # noqa: S301 - our own
