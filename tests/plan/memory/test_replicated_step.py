"""single and ddp, followed by hand: 2,100 elements, two moments each."""

import pytest

from support.values.small_profile import BLOCK, HEAD, INPUT, KEPT, LOGITS, profile
from torchdeck.plan.memory.memory_timeline import Peak
from torchdeck.plan.memory.peak import simulate
from torchdeck.plan.memory.spec import StrategySpec

WEIGHTS = 4 * (HEAD + 2 * BLOCK)
STATE = WEIGHTS + 16
"""With the buffer."""


def peaks(spec: StrategySpec, optimizer: int = 0) -> dict[str, Peak]:
    return {peak.phase: peak for peak in simulate(profile(), spec, optimizer).peaks()}


def test_single_keeps_gradients_until_the_update() -> None:
    """The second block's gradient comes while all else is kept; the update sees all gradients and no more."""
    found = peaks(StrategySpec("single", 1), optimizer=1000)
    assert found["setup"].total == STATE
    assert found["forward"].total == STATE + 1000 + INPUT + 2 * KEPT + LOGITS
    last = STATE + 1000 + INPUT + 4 * (HEAD + 2 * BLOCK) + KEPT
    assert found["backward"].total == last
    assert found["optimizer"].total == STATE + 1000 + INPUT + WEIGHTS


def test_gradients_are_the_buckets() -> None:
    """With views a gradient is copied into its bucket and gone; setup broadcasts a copy of all weights."""
    found = peaks(StrategySpec("ddp", 2))
    assert found["setup"].total == 16 + 2 * WEIGHTS + 16
    assert found["backward"].total == STATE + WEIGHTS + INPUT + 2 * KEPT + 4 * BLOCK
    assert found["optimizer"].total == STATE + WEIGHTS + INPUT


def test_own_gradients_cost_as_much_again() -> None:
    """Without views there are both."""
    found = peaks(StrategySpec("ddp", 2, gradient_as_bucket_view=False))
    assert found["optimizer"].total == STATE + 2 * WEIGHTS + INPUT


@pytest.mark.parametrize("accumulation", [2, 3, 50])
def test_microbatches_without_reduction_keep_gradients_apart(accumulation: int) -> None:
    """The last one adds to them, and buckets take their place one by one; its batch lies beside the first."""
    found = peaks(StrategySpec("ddp", 2, accumulation=accumulation))
    # the head's own gradient has gone into its bucket already when there is no microbatch in between
    kept = WEIGHTS - (4 * HEAD if accumulation == 2 else 0)
    assert found["backward"].total == STATE + WEIGHTS + kept + 2 * INPUT + 2 * KEPT + 4 * BLOCK
    assert found["optimizer"].total == STATE + WEIGHTS + 2 * INPUT


def test_sgd_copies_one_gradient_for_weight_decay() -> None:
    """The largest matrix on the CPU, all on a GPU, none without weight decay."""
    for options, copied in (
        ({}, 4 * BLOCK),
        ({"device": "cuda"}, WEIGHTS),
        ({"weight_decay": 0.0}, 0),
    ):
        found = peaks(StrategySpec("single", 1, optimizer="sgd", **options))
        assert found["optimizer"].total == STATE + INPUT + WEIGHTS + copied
