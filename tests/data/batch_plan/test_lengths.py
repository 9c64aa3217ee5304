"""Lengths that are not what they should be."""

from typing import Any

import numpy as np
import pytest

from torchdeck.data.batch_plan import BatchPlanError, build_batch_plan, check_plan


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        ([], "there are no lengths"),
        ([[1, 2]], r"not of shape \(1, 2\)"),
        ([[1], [2, 3]], "lengths must be one list of numbers: "),
        ([1.0, float("nan")], "whole numbers, not float64: sample 1 has nan"),
        ([1.0, 2.5], "sample 1 has 2.5"),
        ([1.0, 2.0], "whole numbers, not float64$"),
        ([True], "not bool"),
        (["3"], "not str"),
        ([5, -1, -2], r"2 of 3 samples have a negative length \(the first is sample 1, of length -1\)"),
        ([5, 0], r"1 of 2 samples are empty \(the first is sample 1, of length 0\)"),
        ([5, 101, 300], r"2 of 3 samples are longer than 100 \(the first is sample 1, of length 101\)"),
        (np.array([2**64 - 1], dtype=np.uint64), "1 of 1 samples are longer than 100"),
    ],
)
def test_bad_lengths_are_refused(lengths: Any, said: str) -> None:
    """One sentence says how many, which is the first, and what to do."""
    with pytest.raises(BatchPlanError, match=said):
        build_batch_plan(lengths, token_budget=100)


def test_dropped_samples_are_counted() -> None:
    """Left out are those too long or empty, and the others keep their ids."""
    plan = build_batch_plan([5, 0, 101, 7, 300], token_budget=100, too_long="drop", empty="drop")
    ids = sorted(sample for microbatch in plan.iter_epoch(0) for sample in microbatch.sample_ids.tolist())
    assert ids == [0, 3]
    assert (plan.size, check_plan(plan)) == (5, [])
    assert plan.meta.counts.sentence() == "2 of 5 samples used; dropped: 2 too long, 1 empty"


def test_truncated_samples_count_with_the_maximum() -> None:
    """A sample that is cut has as many tokens as are left of it."""
    plan = build_batch_plan([5, 101, 300], token_budget=100, max_length=50, too_long="truncate")
    assert sum(microbatch.tokens for microbatch in plan.iter_epoch(0)) == 105
    assert plan.meta.counts.sentence() == "3 of 3 samples used, 2 of them truncated"


def test_nothing_left() -> None:
    """When every sample is left out there is no plan."""
    with pytest.raises(BatchPlanError, match="none of the 2 samples is left"):
        build_batch_plan([0, 200], token_budget=100, too_long="drop", empty="drop")
