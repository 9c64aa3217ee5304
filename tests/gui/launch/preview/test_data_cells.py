"""Cells of a heat map: whatever they are summed up to, the most and the sum are those of the table."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck_app.launch.preview.data_cells import cut, ranks_named, round_stride, summed_up
from torchdeck_app.widgets.chart import LEVELS, levels, viridis


@given(length=st.integers(1, 5000), parts=st.integers(1, 300))
def test_parts_cover_all_once(length: int, parts: int) -> None:
    edges = cut(length, parts)
    assert (edges[0], edges[-1]) == (0, length)
    sizes = np.diff(edges)
    assert (sizes > 0).all()
    assert len(sizes) <= parts
    assert len(set(sizes[:-1].tolist())) <= 1


@given(
    ranks=st.integers(1, 40),
    columns=st.integers(1, 40),
    most_rows=st.integers(1, 12),
    most_columns=st.integers(1, 12),
    seed=st.integers(0, 2**32 - 1),
)
def test_most_and_sum_are_kept(
    ranks: int, columns: int, most_rows: int, most_columns: int, seed: int
) -> None:
    values = np.random.default_rng(seed).integers(0, 1000, (ranks, columns)).astype(np.float64)
    cells = summed_up(values, most_rows, most_columns)
    assert cells.shape[0] <= most_rows
    assert cells.shape[1] <= most_columns
    assert cells.most.max() == values.max()
    assert cells.total.sum() == pytest.approx(values.sum())
    row, column = cells.shape[0] - 1, cells.shape[1] - 1
    held = values[cells.rows[row] : cells.rows[row + 1], cells.columns[column] : cells.columns[column + 1]]
    assert cells.most[row, column] == held.max()
    assert cells.mean(row, column) == pytest.approx(held.mean())


def test_thousands_of_ranks_keep_nodes_together() -> None:
    cells = summed_up(np.ones((1024, 4)), 56, 60)
    assert np.diff(cells.rows).tolist() == [32] * 32


def test_the_scale_neither_counts_empty_cells_nor_enlarges_small_differences() -> None:
    assert summed_up(np.array([[0.0, 100.0, 40.0]]), 1, 3).span() == (40.0, 100.0)
    assert summed_up(np.array([[99.0, 100.0]]), 1, 2).span() == (90.0, 100.0)
    assert summed_up(np.zeros((2, 2)), 2, 2).span() == (0.0, 1.0)
    assert summed_up(np.full((2, 2), 7.0), 2, 2).alike()


def test_colours_rise_in_lightness() -> None:
    colours = viridis().astype(np.int64)
    light = 0.2126 * (colours >> 16 & 255) + 0.7152 * (colours >> 8 & 255) + 0.0722 * (colours & 255)
    assert len(colours) == LEVELS
    assert (np.diff(light) > -0.6).all()
    assert levels(np.array([0.0, 5.0, 10.0, 99.0]), 0.0, 10.0).tolist() == [0, 128, 255, 255]


def test_ranks_have_names() -> None:
    assert (ranks_named(3, 3), ranks_named(0, 1023)) == ("rank 3", "ranks 0–1,023")


@given(st.floats(0.01, 1e6))
def test_strides_are_round(least: float) -> None:
    stride = round_stride(least)
    assert stride >= least
    assert str(stride).rstrip("0") in {"1", "2", "5"}
    assert stride == 1 or stride < 2.5 * least + 1
