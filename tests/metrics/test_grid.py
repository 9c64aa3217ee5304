"""Grids, excerpts and the limit in time against whole series."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from support.values.metrics import opened, rank_folder, segment_path, write_columns, write_rows
from torchdeck.metrics import Grid, grid, rows_between, sampled


def append(path: Path, steps: np.ndarray, times: np.ndarray, *columns: np.ndarray) -> None:
    """Add rows to a segment."""
    rows = np.empty((len(steps), 2 + len(columns)))
    rows.view(np.int64)[:, 0] = steps
    rows[:, 1] = times
    for number, column in enumerate(columns):
        rows[:, 2 + number] = column
    with path.open("ab") as file:
        rows.tofile(file)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("by_blocks", [0, 10**9])
@pytest.mark.parametrize(("x0", "x1"), [(1, 5000), (900, 1300), (4000, 9000)])
def test_a_grid_that_follows_is_the_window_of_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, x0: int, x1: int, by_blocks: int, log: bool
) -> None:
    monkeypatch.setattr(grid, "BY_BLOCKS", by_blocks)
    random = np.random.default_rng(3)
    values = random.normal(size=(2, 5000))
    values[0, 77] = values[0, 1000] = np.nan
    values[0, 1001] = np.inf
    steps, path = np.arange(5000), segment_path(tmp_path)
    ends = [0, 1, 700, 3000, 5000]
    write_columns(path, {"a": values[0, :0], "b": values[1, :0]}, steps=steps[:0], times=steps[:0] * 1.0)
    metrics = opened(tmp_path)
    made = Grid(metrics, x0, x1, 50, log=log)
    for first, last in itertools.pairwise(ends):
        part = slice(first, last)
        append(path, steps[part], 1e9 + steps[part], values[0, part], values[1, part])
        metrics.refresh()
        windows = made.windows(["a", "b", "none"], 0)
        assert list(windows) == ["a", "b"]
        for name, window in windows.items():
            wanted = metrics.window(name, 0, x0, x1, 50, log=log)
            np.testing.assert_array_equal(window.low, wanted.low)
            np.testing.assert_array_equal(window.high, wanted.high)
            np.testing.assert_array_equal(window.counts, wanted.counts)
            np.testing.assert_array_equal(window.odd, wanted.odd)
            known = values[("a", "b").index(name), :last]
            inside = (steps[:last] >= x0) & (steps[:last] <= x1)
            assert window.odd.sum() == (~np.isfinite(known[inside])).sum()


def test_a_row_written_late_is_taken_in(tmp_path: Path) -> None:
    path = segment_path(tmp_path)
    write_columns(path, {"a": np.array([1.0, 0, 3])}, steps=np.array([1, 0, 3]), times=np.array([1.0, 0, 3]))
    metrics = opened(tmp_path)
    made = Grid(metrics, 0, 4, 4)
    assert made.windows(["a"], 0)["a"].counts.sum() == 1
    with path.open("r+b") as file:
        file.seek(-48, 2)
        np.array([2]).tofile(file)
        np.array([2.0, 2.0]).tofile(file)
    append(path, np.array([4]), np.array([4.0]), np.array([4.0]))
    metrics.refresh()
    np.testing.assert_array_equal(made.windows(["a"], 0)["a"].high, [np.nan, 1, 2, 4])


def test_superseded_rows_leave_the_grid_when_a_later_attempt_begins(tmp_path: Path) -> None:
    write_rows(tmp_path, [(step, {"a": 1.0}) for step in range(10)], attempt=1)
    metrics = opened(tmp_path)
    made = Grid(metrics, 0, 10, 10, effective=True)
    assert made.windows(["a"], 0)["a"].counts.sum() == 10
    write_rows(tmp_path, [(step, {"a": 2.0}) for step in range(5, 8)], attempt=2)
    metrics.refresh()
    np.testing.assert_array_equal(made.windows(["a"], 0)["a"].high, [1] * 5 + [2] * 3 + [np.nan] * 2)


def test_a_short_range_comes_row_by_row_and_a_long_one_not(tmp_path: Path) -> None:
    steps = np.arange(20_000)
    write_columns(segment_path(tmp_path), {"a": steps * 0.5}, steps=steps, times=1e9 + steps)
    metrics = opened(tmp_path)
    found = rows_between(metrics, "a", 0, 9000, 9100, most=200)
    assert found is not None
    np.testing.assert_array_equal(found.steps, np.arange(8999, 9102))
    np.testing.assert_array_equal(found.values, np.arange(8999, 9102) * 0.5)
    by_time = rows_between(metrics, "a", 0, 1e9 + 9000, 1e9 + 9100, most=200, axis="time")
    assert by_time is not None
    np.testing.assert_array_equal(by_time.values, found.values)
    assert rows_between(metrics, "a", 0, 0, 20_000, most=200) is None
    few = sampled(metrics, "a", 0, most=300)
    assert 150 <= len(few) <= 301
    assert (few.steps[0], few.steps[-1]) == (0, 19_999)
    np.testing.assert_array_equal(few.values, few.steps * 0.5)


@pytest.mark.parametrize("until", [1e9 - 1, 1e9, 1e9 + 499.5, 1e9 + 2000])
def test_what_came_after_a_moment_is_not_there(tmp_path: Path, until: float) -> None:
    steps = np.arange(1000)
    write_columns(segment_path(tmp_path), {"a": steps * 1.0}, steps=steps, times=1e9 + steps)
    metrics = opened(tmp_path)
    metrics.until = until
    kept = int((1e9 + steps <= until).sum())
    np.testing.assert_array_equal(metrics.series("a", 0).steps, steps[:kept])
    assert metrics.window("a", 0, 0, 1000, 10).counts.sum() == kept
    assert Grid(metrics, 0, 1000, 10).windows(["a"], 0).get("a") is None or kept
    assert metrics.extent("a", 0) == ((0, kept - 1) if kept else None)
    assert rank_folder(tmp_path).is_dir()
