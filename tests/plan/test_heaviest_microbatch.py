"""The microbatch that memory is predicted for."""

import numpy as np
import pytest

from torchdeck.data.batch_plan import build_batch_plan
from torchdeck.plan.fitting import heaviest_microbatch, heavy_microbatches


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("pack", [False, True])
def test_it_has_the_most_tokens_and_then_the_longest_rows(seed: int, pack: bool) -> None:
    """Compared with a look at every microbatch of every epoch."""
    lengths = np.random.default_rng(seed).integers(1, 100, size=500)
    plan = build_batch_plan(lengths, token_budget=256, seed=seed, epochs=2, pack=pack)
    found = heaviest_microbatch(plan)
    every = [microbatch for epoch in range(plan.epochs) for microbatch in plan.iter_epoch(epoch)]
    assert found is not None
    assert (found.padded_tokens, found.max_len) == max((one.padded_tokens, one.max_len) for one in every)
    assert any(np.array_equal(found.sample_ids, one.sample_ids) for one in every)
    heavy = heavy_microbatches(plan)
    assert np.array_equal(heavy[0].sample_ids, found.sample_ids)
    most = max(one.padded_tokens * one.max_len for one in every)
    assert max(one.padded_tokens * one.max_len for one in heavy) == most


def test_longer_rows_of_fewer_tokens_may_be_heavier() -> None:
    """Both are named, each once."""
    few = build_batch_plan(np.array([4] * 10 + [30]), token_budget=40, buckets=(4,))
    assert [(one.rows, one.max_len) for one in heavy_microbatches(few)] == [(10, 4), (1, 30)]
    alike = build_batch_plan(np.full(9, 8), token_budget=64)
    assert [(one.rows, one.max_len) for one in heavy_microbatches(alike)] == [(8, 8)]
