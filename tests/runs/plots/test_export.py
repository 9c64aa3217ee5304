"""Rows as CSV: given up soon where no one wants them any more."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from support.values.metrics import rank_folder, write_columns
from torchdeck.contract.layout import RunLayout
from torchdeck.metrics.segment import Rows, Segment
from torchdeck.runs.plots.catalogue import Metric
from torchdeck.runs.plots.rows_csv import write_csv

LOSS = Metric("loss", "Loss", "", "rank", ("loss",), ("train",))


class CancelledError(Exception):
    """Raised to give up."""


class ThirdTime:
    """Cancels when it is asked for the third time."""

    asked = 0

    def __call__(self) -> None:
        self.asked += 1
        if self.asked == 3:
            raise CancelledError


def test_little_is_read_between_two_looks_at_the_cancel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = np.arange(200_000)
    columns = {"loss": steps.astype(float)}
    write_columns(rank_folder(tmp_path, 0) / "log-1.metrics", columns, steps=steps, times=1e9 + steps)
    read: list[int] = []
    original = Segment.read_runs

    def read_runs(segment: Segment, runs: Sequence[tuple[int, int]]) -> Rows:
        read.append(sum(last - first for first, last in runs))
        return original(segment, runs)

    monkeypatch.setattr(Segment, "read_runs", read_runs)
    target = tmp_path / "out.csv"
    with pytest.raises(CancelledError):
        write_csv(target, RunLayout(tmp_path), LOSS, lambda _: None, ThirdTime())
    assert 0 < sum(read) <= 50_000
    assert not list(tmp_path.glob("*out.csv*"))
