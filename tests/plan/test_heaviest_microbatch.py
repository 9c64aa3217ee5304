"""The microbatch that memory is predicted for."""

import numpy as np
import pytest

from torchdeck.data.batch_plan import build_batch_plan
from torchdeck.plan.heaviest_microbatch import heaviest_microbatch


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
