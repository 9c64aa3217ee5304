"""Every so-manyth row of a segment that grows, has holes filled, or becomes shorter."""

from pathlib import Path

import numpy as np
import pytest

from support.values.metrics import segment_path, write_columns
from torchdeck.metrics.owned_segment import SparseRows
from torchdeck.metrics.segment import TIME, Segment

ROW_BYTES = 24


def grow(path: Path, first: int, last: int) -> None:
    """Append rows of one metric, `first` to `last` - 1; each value is its step's half."""
    steps = np.arange(first, last)
    row = np.zeros((len(steps), 3))
    row[:, 0] = steps.view(np.float64)
    row[:, 1:] = np.stack([1e9 + steps, steps / 2], 1)
    with path.open("ab") as file:
        file.write(row.tobytes())


def begun(tmp_path: Path, rows: int) -> tuple[Path, Segment]:
    path, steps = segment_path(tmp_path), np.arange(rows)
    write_columns(path, {"a": steps / 2}, steps=steps, times=1e9 + steps)
    segment = Segment(path)
    segment.refresh()
    return path, segment


def numbers(rows: np.ndarray) -> list[int]:
    return [round(row[TIME] - 1e9) for row in rows]


def wanted(rows: int, stride: int) -> list[int]:
    return sorted({*range(0, rows, stride), rows - 1})


@pytest.mark.parametrize("strides", [(1, 1, 2, 4, 4, 8), (4, 4, 4, 2, 1, 8), (2, 3, 3, 6, 5, 1)])
def test_it_is_what_one_who_reads_all_would_pick(tmp_path: Path, strides: tuple[int, ...]) -> None:
    path, segment = begun(tmp_path, 10)
    sparse, rows = SparseRows(segment), 10
    for more, stride in enumerate(strides):
        assert numbers(sparse.every(stride)) == wanted(rows, stride)
        grow(path, rows, rows + more)
        rows += more
        segment.refresh()
    np.testing.assert_array_equal(sparse.every(2)[:, 2] * 2, wanted(rows, 2))


def test_of_a_segment_that_grew_only_what_is_new_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, segment = begun(tmp_path, 1000)
    sparse = SparseRows(segment)
    sparse.every(4)
    grow(path, 1000, 1010)
    segment.refresh()
    read: list[tuple[int, int]] = []
    original = Segment.read_runs

    def counted(self: Segment, runs: list[tuple[int, int]]) -> np.ndarray:
        read.extend(runs)
        return original(self, runs)

    monkeypatch.setattr(Segment, "read_runs", counted)
    assert numbers(sparse.every(4)) == wanted(1010, 4)
    assert read == [(1000, 1001), (1004, 1005), (1008, 1009), (1009, 1010)]


def test_a_row_that_was_written_late_is_found(tmp_path: Path) -> None:
    path, segment = begun(tmp_path, 9)
    with path.open("r+b") as file:
        file.seek(-5 * ROW_BYTES, 2)  # the row 4
        kept = file.read(ROW_BYTES)
        file.seek(-ROW_BYTES, 1)
        file.write(bytes(ROW_BYTES))
    sparse = SparseRows(segment)
    assert sparse.every(4)[:, TIME].tolist() == [1e9, 0.0, 1e9 + 8]
    with path.open("r+b") as file:
        file.seek(-5 * ROW_BYTES, 2)
        file.write(kept)
    assert numbers(sparse.every(4)) == [0, 4, 8]


def test_a_file_that_was_begun_anew_is_read_anew(tmp_path: Path) -> None:
    path, segment = begun(tmp_path, 100)
    sparse = SparseRows(segment)
    sparse.every(2)
    header = path.stat().st_size - 100 * ROW_BYTES
    with path.open("r+b") as file:
        file.truncate(header)
    grow(path, 50, 60)
    segment.refresh()
    assert numbers(sparse.every(2)) == [50, 52, 54, 56, 58, 59]
