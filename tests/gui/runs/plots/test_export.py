"""Rows as CSV: given up soon where no one wants them any more."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from support.values.metrics import rank_folder, write_columns
from torchdeck.contract.layout import RunLayout
from torchdeck.metrics.segment import Rows, Segment
from torchdeck_app.bridge.operations import Cancel, CancelledError
from torchdeck_app.runs.plots.catalogue import Metric
from torchdeck_app.runs.plots.exporting import write_csv

LOSS = Metric("loss", "Loss", "", "rank", ("loss",), ("train",))


class ThirdTime(Cancel):
    """Cancelled when it is asked for the third time."""

    asked = 0

    def check(self) -> None:
        self.asked += 1
        if self.asked == 3:
            self.cancel()
        super().check()


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
