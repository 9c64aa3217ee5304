"""Who lags behind, by values."""

import numpy as np
import pytest

from torchdeck.runs.plots.stragglers import sentence, stragglers


def times(ranks: int = 8, columns: int = 40) -> np.ndarray:
    return np.random.default_rng(0).normal(1.0, 0.02, size=(ranks, columns))


def numbers(count: int, each: float = 1.0) -> np.ndarray:
    return np.arange(count, dtype=float) * each


def test_the_slow_rank_is_named_with_its_factor_and_since_when() -> None:
    values = times()
    values[3, 21:] *= 1.8
    found = stragglers(values)
    assert [(s.row, s.first, s.goes_on) for s in found] == [(3, 21, True)]
    text = sentence(found, list(range(8)), numbers(40, 20), "step")
    assert text == "Rank 3 is 1.8 × the median since step 420."


def test_one_that_recovered_is_told_in_the_past_and_others_are_named() -> None:
    values = times()
    values[5, 10:20] *= 2
    values[6, 12:17] *= 1.5
    text = sentence(stragglers(values), list(range(8)), numbers(40), "step")
    assert text == "Rank 5 was 2.0 × the median from step 10 to 19; slow too: rank 6."


def test_short_gaps_are_bridged_and_single_moments_are_no_straggler() -> None:
    values = times()
    values[2, 5:30] *= 1.6
    values[2, 14] = 1.0
    values[7, 3] *= 9
    found = stragglers(values)
    assert [(s.row, s.first, s.last) for s in found] == [(2, 5, 29)]


def test_columns_without_rows_do_not_end_a_stretch() -> None:
    values = times()
    values[1] *= 1.7
    values[:, ::2] = np.nan
    values[:, 30:] = np.nan
    (found,) = stragglers(values)
    assert (found.row, found.goes_on) == (1, True)


@pytest.mark.parametrize("values", [np.empty((0, 0)), np.full((4, 5), np.nan), times(), np.ones((1, 9))])
def test_where_nobody_lags_nobody_is_named(values: np.ndarray) -> None:
    assert stragglers(values) == []
