"""Level of detail against counting by hand."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from support.values.metrics import opened, segment_path, write_columns
from torchdeck.metrics import Window

ROWS = 1400


def by_hand(
    x: np.ndarray, values: np.ndarray, x0: float, x1: float, columns: int
) -> list[tuple[int, float, float]]:
    """(rows, least, greatest) of each column, one row after the other."""
    found: list[list[float]] = [[] for _ in range(columns)]
    scale = columns / (x1 - x0) if x1 > x0 else 0.0
    for position, value in zip(x.tolist(), values.tolist(), strict=True):
        if x0 <= position <= x1:
            found[min(int((position - x0) * scale), columns - 1)].append(value)
    result = []
    for column in found:
        real = [value for value in column if not math.isnan(value)]
        result.append((len(column), min(real, default=math.nan), max(real, default=math.nan)))
    return result


def same(window: Window, wanted: list[tuple[int, float, float]]) -> None:
    """Fails unless the window holds what was counted."""
    counts, low, high = (np.array(part) for part in zip(*wanted, strict=True))
    np.testing.assert_array_equal(window.counts, counts)
    np.testing.assert_array_equal(window.low, low)
    np.testing.assert_array_equal(window.high, high)


@settings(deadline=None)
@given(
    st.integers(1, ROWS),
    st.sampled_from(["in order", "with repeats", "in any order"]),
    arrays.arrays(np.float64, ROWS, elements=st.floats(width=32), fill=st.floats(-10, 10)),
    st.floats(-50, 1500),
    st.floats(0, 1500),
    st.integers(1, 40),
    st.integers(0, 3),
)
def test_window_is_what_counting_gives(
    tmp_path_factory: pytest.TempPathFactory,
    rows: int,
    order: str,
    values: np.ndarray,
    x0: float,
    width: float,
    columns: int,
    seed: int,
) -> None:
    """Any rows (NaN, infinities), any order of steps, any window: exactly the rows of each column."""
    run = tmp_path_factory.mktemp("run")
    generator = np.random.default_rng(seed)
    steps = np.arange(rows) if order == "in order" else generator.integers(0, ROWS, rows)
    if order == "with repeats":
        steps.sort()
    path = segment_path(run)
    write_columns(
        path, {"loss": values[:rows], "a": -values[:rows]}, steps=steps, times=5.0 + np.arange(rows)
    )
    metrics = opened(run)
    same(
        metrics.window("loss", 0, x0, x0 + width, columns),
        by_hand(steps, values[:rows], x0, x0 + width, columns),
    )
    same(
        metrics.window("a", 0, x0, x0 + width, columns, axis="time"),
        by_hand(5.0 + np.arange(rows), -values[:rows], x0, x0 + width, columns),
    )


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(0, 700), min_size=1, max_size=5), st.integers(1, 30))
def test_window_follows(tmp_path_factory: pytest.TempPathFactory, portions: list[int], columns: int) -> None:
    """Rows that arrive in portions of any size give the window that they give at once."""
    run = tmp_path_factory.mktemp("run")
    total = sum(portions)
    steps = np.arange(total)
    values = np.sin(steps * 0.37)
    path = segment_path(run)
    write_columns(path, {"loss": values[:0]}, steps=steps[:0], times=1.0 + steps[:0])
    metrics = opened(run)
    for end in np.cumsum(portions).tolist():
        write_columns(path, {"loss": values[:end]}, steps=steps[:end], times=1.0 + steps[:end])
        metrics.refresh()
        same(
            metrics.window("loss", 0, 0, 800, columns),
            by_hand(steps[:end], values[:end], 0, 800, columns),
        )


def test_one_spike_in_a_million_is_seen(tmp_path: Path) -> None:
    """A single bad step is never averaged away, at any zoom that holds it."""
    steps = np.arange(1_000_000)
    values = np.ones(1_000_000)
    values[654_321] = 1000.0
    write_columns(segment_path(tmp_path), {"loss": values}, steps=steps, times=1.0 + steps)
    metrics = opened(tmp_path)
    for x0, x1 in ((0, 999_999), (600_000, 700_000), (654_000, 655_000), (654_321, 654_321)):
        window = metrics.window("loss", 0, x0, x1, 2000)
        assert window.high[window.counts > 0].max() == 1000.0
        assert window.counts.sum() == x1 - x0 + 1
        assert window.edges[0] == x0
        assert window.edges[-1] == x1


def test_extent(tmp_path: Path) -> None:
    """The range of steps and of times, for a first look at everything."""
    steps = np.array([5, 900, 3, 40])
    write_columns(segment_path(tmp_path), {"loss": np.ones(4)}, steps=steps, times=np.arange(10.0, 14.0))
    metrics = opened(tmp_path)
    assert metrics.extent("loss", 0) == (3.0, 900.0)
    assert metrics.extent("loss", 0, axis="time") == (10.0, 13.0)


@pytest.mark.parametrize(
    ("x0", "x1", "columns", "axis", "said"),
    [
        (1.0, 0.0, 5, "step", "greater x1"),
        (math.nan, 1.0, 5, "step", "finite"),
        (0.0, math.inf, 5, "step", "finite"),
        (0.0, 1.0, 0, "step", "at least one column"),
        (0.0, 1.0, 5, "epoch", "step or time"),
    ],
)
def test_windows_that_are_none(
    tmp_path: Path, x0: float, x1: float, columns: int, axis: str, said: str
) -> None:
    """A range that is no range says what would be right."""
    with pytest.raises(ValueError, match=said):
        opened(tmp_path).window("loss", 0, x0, x1, columns, axis=axis)
