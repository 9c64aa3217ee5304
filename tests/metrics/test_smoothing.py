"""The moving average against TensorBoard's loop."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.values.metrics import opened, segment_path, write_columns
from torchdeck.metrics.smoothing import averages, window_means


def by_loop(values: list[float], weight: float) -> list[float]:
    """As TensorBoard writes it."""
    last, count, found = 0.0, 0, []
    for value in values:
        if not math.isfinite(value):
            found.append(value)
            continue
        last = last * weight + (1 - weight) * value
        count += 1
        found.append(last / (1 - weight**count if weight != 1 else 1))
    return found


@settings(deadline=None)
@given(
    st.lists(st.one_of(st.floats(-1e6, 1e6), st.sampled_from([math.nan, math.inf, -math.inf])), max_size=400),
    st.sampled_from([0.0, 0.1, 0.6, 0.9, 0.99, 0.999]),
    st.integers(0, 400),
)
def test_average_is_tensorboards_also_in_two_parts(values: list[float], weight: float, cut: int) -> None:
    array = np.array(values, float)
    wanted = np.array(by_loop(values, weight))
    np.testing.assert_allclose(averages(array, weight).smoothed, wanted, rtol=1e-9, atol=1e-6)
    first = averages(array[:cut], weight)
    last, count = (float(first.last[-1]), int(first.count[-1])) if len(first.last) else (0.0, 0)
    second = averages(array[cut:], weight, last, count)
    np.testing.assert_allclose(
        np.concatenate((first.smoothed, second.smoothed)), wanted, rtol=1e-9, atol=1e-6
    )


def test_a_weight_of_one_is_refused() -> None:
    with pytest.raises(ValueError, match="below 1, not 1"):
        averages(np.zeros(3), 1.0)


@pytest.mark.parametrize(("x0", "x1"), [(0, 1999), (700, 710), (1500, 1999)])
def test_windows_hold_the_average_of_all_rows_before(tmp_path: Path, x0: int, x1: int) -> None:
    values = np.random.default_rng(1).normal(size=2000)
    steps = np.arange(2000)
    write_columns(segment_path(tmp_path), {"loss": values}, steps=steps, times=1e9 + steps)
    metrics = opened(tmp_path)
    window = metrics.window("loss", 0, x0, x1, x1 - x0 + 1, smoothing=0.9)
    smoothed = np.array(by_loop(values.tolist(), 0.9))
    filled = window.counts > 0
    np.testing.assert_array_equal(window.counts.sum(), x1 - x0 + 1)
    np.testing.assert_allclose(window.low[filled].min(), smoothed[x0 : x1 + 1].min(), rtol=1e-9)
    np.testing.assert_allclose(window.high[filled][-1], smoothed[x1], rtol=1e-9)


def test_the_average_goes_on_with_appended_rows(tmp_path: Path) -> None:
    values = np.random.default_rng(2).normal(size=1500)
    path = segment_path(tmp_path)
    steps = np.arange(600)
    write_columns(path, {"loss": values[:600]}, steps=steps, times=1e9 + steps)
    metrics = opened(tmp_path)
    metrics.window("loss", 0, 0, 599, 600, smoothing=0.8)
    with path.open("ab") as file:
        for step in range(600, 1500):
            file.write(np.array([step], "<i8").tobytes() + np.array([1e9 + step, values[step]]).tobytes())
    metrics.refresh()
    window = metrics.window("loss", 0, 0, 1499, 1500, smoothing=0.8)
    np.testing.assert_allclose(window.low, by_loop(values.tolist(), 0.8), rtol=1e-9)


@pytest.mark.parametrize("restored", [700, 511, 512, 900, 999])
@pytest.mark.parametrize("effective", [True, False])
def test_the_average_of_an_attempt_goes_on_from_the_step_it_restored(
    tmp_path: Path, restored: int, effective: bool
) -> None:
    values = np.random.default_rng(3).normal(size=1000) + 10
    again = np.random.default_rng(4).normal(size=600)
    steps = np.arange(1000)
    write_columns(segment_path(tmp_path, attempt=1), {"loss": values}, steps=steps, times=1e9 + steps)
    later = np.arange(restored + 1, restored + 601)
    write_columns(segment_path(tmp_path, attempt=2), {"loss": again}, steps=later, times=2e9 + later)
    metrics = opened(tmp_path)
    wanted = by_loop([*values[: restored + 1].tolist(), *again.tolist()], 0.99)
    window = metrics.window("loss", 0, 2e9, 3e9, 1, axis="time", smoothing=0.99, effective=effective)
    np.testing.assert_allclose(window.low, min(wanted[restored + 1 :]), rtol=1e-9)
    np.testing.assert_allclose(window.high, max(wanted[restored + 1 :]), rtol=1e-9)


@given(st.lists(st.sampled_from([1e20, 1.0, -2.5, 0.1, math.nan, math.inf]), max_size=40), st.integers(1, 12))
def test_a_huge_value_is_only_in_the_means_of_its_own_windows(values: list[float], rows: int) -> None:
    seen: list[float] = []
    wanted = []
    for value in values:
        if math.isfinite(value):
            seen.append(value)
            value = math.fsum(seen[-rows:]) / len(seen[-rows:])
        wanted.append(value)
    np.testing.assert_allclose(window_means(np.array(values), rows), wanted, rtol=1e-12, atol=1e-12)
