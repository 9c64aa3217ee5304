"""Following, merging and judging a run's metrics."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from support.values.metrics import opened, rank_folder, segment_path, write_columns, write_rows
from torchdeck.contract.atomic import write_json
from torchdeck.contract.journal import JournalWriter, NewerFormatError
from torchdeck.contract.layout import RunLayout
from torchdeck.metrics import RunMetrics
from torchdeck.telemetry.writer import MetricsWriter


def start_attempt(run: Path, attempt: int, resume_step: int | None, kind: str = "recipe") -> None:
    """Journal an attempt's start as the agent does."""
    layout = RunLayout(run)
    layout.node("localhost").root.mkdir(parents=True, exist_ok=True)
    write_json(layout.plan, {"kind": kind})
    with JournalWriter(layout.node("localhost").journal) as journal:
        journal.append("attempt_started", attempt=attempt, resume_step=resume_step, durable=False)


def losses(run: Path, *, effective: bool) -> list[tuple[int, int]]:
    """(attempt, step) of rank 0's loss."""
    series = opened(run).series("loss", 0, effective=effective)
    return list(zip(series.attempts.tolist(), series.steps.tolist(), strict=True))


def test_run_without_metrics(tmp_path: Path) -> None:
    """A run that has not begun, or is gone, has no metrics and no problem."""
    for run in (tmp_path, tmp_path / "absent"):
        metrics = opened(run)
        assert metrics.names() == []
        assert metrics.latest("loss", 0) is None
        assert len(metrics.series("loss", 0)) == 0
        assert metrics.window("loss", 0, 0, 10, 4).counts.tolist() == [0, 0, 0, 0]
        assert metrics.extent("loss", 0) is None


def test_names_and_ranks(tmp_path: Path) -> None:
    """Metrics are listed by name, their ranks in order of number; hidden columns are not."""
    write_rows(tmp_path, [(1, {"loss": 1.0, "_offset": 10.0})], rank=0)
    write_rows(tmp_path, [(1, {"memory": 1.0})], rank=10)
    write_rows(tmp_path, [(1, {"memory": 2.0})], rank=9)
    metrics = opened(tmp_path)
    assert metrics.names() == ["loss", "memory"]
    assert metrics.ranks("memory") == [9, 10]
    assert metrics.ranks("_offset") == []


def test_system_series_belong_to_nodes(tmp_path: Path) -> None:
    """What an agent samples is found by the node's name and is none of the ranks' metrics."""
    with MetricsWriter(RunLayout(tmp_path).node("gpu-7").system, source="system") as writer:
        writer.log({"cpu_percent": 12.5}, step=1)
    metrics = opened(tmp_path)
    assert metrics.names() == []
    assert metrics.system_names() == ["cpu_percent"]
    assert metrics.nodes("cpu_percent") == ["gpu-7"]
    latest = metrics.latest("cpu_percent", "gpu-7")
    assert latest is not None
    assert (latest.value, latest.attempt) == (12.5, 0)


def test_following(tmp_path: Path) -> None:
    """Each refresh gives what was appended since the last, in old files and new ones."""
    metrics = RunMetrics(tmp_path)
    writer = MetricsWriter(rank_folder(tmp_path))
    assert metrics.refresh() == 0
    for step in range(1000):
        writer.log({"loss": float(step)}, step=step)
        if step % 7 == 0:
            assert metrics.refresh() == (7 if step else 1)
            latest = metrics.latest("loss", 0)
            assert latest is not None
            assert (latest.step, latest.value) == (step, float(step))
    assert metrics.series("loss", 0).steps.tolist() == list(range(995))
    metrics.refresh()
    assert metrics.series("loss", 0).steps.tolist() == list(range(1000))


def test_refresh_reads_only_what_was_appended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a long file, a hundred new rows cost a few kilobytes of reading, window and latest included."""
    steps = np.arange(1_000_000)
    path = segment_path(tmp_path)
    write_columns(path, {"loss": np.sin(steps)}, steps=steps, times=1.0 + steps)
    metrics = opened(tmp_path)
    metrics.window("loss", 0, 0, 1e6, 100)
    read = 0
    preadv = os.preadv

    def counting(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        nonlocal read
        got = preadv(descriptor, buffers, offset)
        read += got
        return got

    monkeypatch.setattr(os, "preadv", counting)
    with path.open("ab") as file:
        for step in range(1_000_000, 1_000_100):
            file.write(np.array([step], "<i8").tobytes() + np.array([1.0 + step, 0.5], "<f8").tobytes())
    assert metrics.refresh() == 100
    assert metrics.latest("loss", 0) is not None
    assert metrics.window("loss", 0, 1_000_000, 1_000_100, 10).counts.sum() == 100
    assert read < 24 * 100 + 2 * 24 * 512


def test_torn_tail_is_no_row_until_it_is_whole(tmp_path: Path) -> None:
    """A row cut anywhere is not seen; when the rest arrives, it is, and nothing has shifted."""
    write_rows(tmp_path, [(step, {"loss": float(step), "lr": 0.5}) for step in range(3)])
    (path,) = rank_folder(tmp_path).glob("*.metrics")
    content = path.read_bytes()
    for cut in range(1, 33):
        path.write_bytes(content[:-cut])
        assert opened(tmp_path).series("loss", 0).steps.tolist() == [0, 1]
    path.write_bytes(content[:-5])
    metrics = opened(tmp_path)
    path.write_bytes(content)
    assert metrics.refresh() == 1
    assert metrics.series("lr", 0).values.tolist() == [0.5, 0.5, 0.5]


def test_truncated_header_is_waited_for(tmp_path: Path) -> None:
    """A header that is not whole is no problem and no metric; when it is whole, the file is read."""
    write_rows(tmp_path, [(1, {"loss": 1.0})])
    (path,) = rank_folder(tmp_path).glob("*.metrics")
    content = path.read_bytes()
    metrics = RunMetrics(tmp_path)
    for cut in (0, 1, 30, 127):
        path.write_bytes(content[:cut])
        assert metrics.refresh() == 0
        assert metrics.problems == ()
    path.write_bytes(content)
    assert metrics.refresh() == 1
    assert metrics.names() == ["loss"]


def test_foreign_and_newer_files_are_said_and_left_out(tmp_path: Path) -> None:
    """What is no segment, or one of a newer version, is one sentence each; the others are read."""
    write_rows(tmp_path, [(1, {"loss": 1.0})])
    folder = rank_folder(tmp_path)
    (folder / "notes.txt").write_text("not ours, not looked at")
    (folder / "foreign.metrics").write_bytes(b"\x00" * 500)
    (folder / "newer.metrics").write_bytes(json.dumps({"torchdeck_metrics": 2}).encode() + b"\n")
    (folder / "folder.metrics").mkdir()
    metrics = opened(tmp_path)
    metrics.refresh()
    assert metrics.names() == ["loss"]
    foreign, newer, directory = sorted(metrics.problems, key=lambda text: "folder" in text)
    assert "foreign.metrics: not a metrics segment" in foreign
    assert "update Torchdeck" in newer
    assert "cannot be read" in directory


def test_holes_are_no_rows(tmp_path: Path) -> None:
    """Rows that a power cut left empty, inside or at the end, are left out, of windows too."""
    steps = np.arange(2000)
    times = 1.0 + steps
    times[700:710] = 0
    times[1990:] = 0
    path = segment_path(tmp_path)
    write_columns(
        path, {"loss": np.where(times == 0, 0.0, 5.0)}, steps=np.where(times == 0, 0, steps), times=times
    )
    metrics = opened(tmp_path)
    series = metrics.series("loss", 0)
    assert len(series) == 1980
    assert series.values.min() == 5.0
    window = metrics.window("loss", 0, 0, 1999, 7)
    assert window.counts.sum() == 1980
    assert window.low.min() == 5.0
    assert metrics.extent("loss", 0) == (0.0, 1989.0)
    latest = metrics.latest("loss", 0)
    assert latest is not None
    assert latest.step == 1989


def test_hole_at_the_end_may_be_filled(tmp_path: Path) -> None:
    """A hole at the end is waited for: on some file systems the size is seen before the content."""
    path = segment_path(tmp_path)
    write_columns(path, {"loss": np.array([1.0, 0.0])}, steps=np.array([1, 0]), times=np.array([1.0, 0.0]))
    metrics = opened(tmp_path)
    assert metrics.series("loss", 0).steps.tolist() == [1]
    write_columns(path, {"loss": np.array([1.0, 2.0])}, steps=np.array([1, 2]), times=np.array([1.0, 2.0]))
    assert metrics.refresh() == 1
    assert metrics.series("loss", 0).steps.tolist() == [1, 2]


def test_file_that_shrank_is_read_anew(tmp_path: Path) -> None:
    """A segment that someone truncated or replaced gives what it holds now, and kills no one."""
    path = segment_path(tmp_path)
    steps = np.arange(3000)
    write_columns(path, {"loss": np.ones(3000)}, steps=steps, times=1.0 + steps)
    metrics = opened(tmp_path)
    metrics.window("loss", 0, 0, 3000, 2)
    write_columns(path, {"loss": np.full(600, 7.0)}, steps=steps[:600], times=1.0 + steps[:600])
    assert len(metrics.series("loss", 0)) == 600, "before the refresh, too"
    metrics.refresh()
    window = metrics.window("loss", 0, 0, 3000, 2)
    assert (window.counts.tolist(), window.high[0]) == ([600, 0], 7.0)
    path.unlink()
    metrics.refresh()
    assert "cannot be read" in metrics.problems[0]


def test_log_is_believed_over_trainer_and_stdout(tmp_path: Path) -> None:
    """Of one metric of one rank only the most trusted source counts; another rank's is its own."""
    write_rows(tmp_path, [(1, {"loss": 3.0, "mfu": 0.4})], source="stdout")
    metrics = opened(tmp_path)
    assert metrics.series("loss", 0).values.tolist() == [3.0]
    write_rows(tmp_path, [(1, {"loss": 2.0})], source="trainer")
    metrics.refresh()
    assert metrics.series("loss", 0).values.tolist() == [2.0]
    write_rows(tmp_path, [(1, {"loss": 1.0})], source="log")
    write_rows(tmp_path, [(1, {"loss": 9.0})], source="stdout", rank=1)
    metrics.refresh()
    assert metrics.series("loss", 0).values.tolist() == [1.0]
    assert metrics.series("loss", 1).values.tolist() == [9.0]
    assert metrics.series("mfu", 0).values.tolist() == [0.4]


def test_segments_of_one_attempt_are_merged_by_time(tmp_path: Path) -> None:
    """Rows of two tables come out in the order in which they were written."""
    with MetricsWriter(rank_folder(tmp_path)) as writer:
        for step in range(20):
            writer.log({"loss": float(step)} | ({"lr": 1.0} if step % 3 else {}), step=step)
    assert opened(tmp_path).series("loss", 0).steps.tolist() == list(range(20))


def test_attempts_keep_all_rows(tmp_path: Path) -> None:
    """After a restart from step 3 the steps done twice are there twice, each with its attempt."""
    start_attempt(tmp_path, 1, None)
    write_rows(tmp_path, [(step, {"loss": 1.0}) for step in range(1, 6)])
    start_attempt(tmp_path, 2, 3)
    write_rows(tmp_path, [(step, {"loss": 2.0}) for step in range(4, 7)], attempt=2)
    assert losses(tmp_path, effective=False) == [*((1, step) for step in range(1, 6)), (2, 4), (2, 5), (2, 6)]
    assert losses(tmp_path, effective=True) == [(1, 1), (1, 2), (1, 3), (2, 4), (2, 5), (2, 6)]
    latest = opened(tmp_path).latest("loss", 0)
    assert latest is not None
    assert (latest.attempt, latest.step) == (2, 6)


def test_attempt_that_restored_less_supersedes_more(tmp_path: Path) -> None:
    """A third attempt that goes back behind the second's start leaves one history of the weights."""
    for attempt, restored, steps in ((1, None, range(1, 11)), (2, 8, range(9, 15)), (3, 4, range(5, 7))):
        start_attempt(tmp_path, attempt, restored)
        write_rows(tmp_path, [(step, {"loss": 1.0}) for step in steps], attempt=attempt)
    assert losses(tmp_path, effective=True) == [(1, 1), (1, 2), (1, 3), (1, 4), (3, 5), (3, 6)]


def test_recipe_that_began_afresh_supersedes_all(tmp_path: Path) -> None:
    """A recipe's attempt without a checkpoint makes all rows before it void, whatever their metric."""
    start_attempt(tmp_path, 1, None)
    write_rows(tmp_path, [(5, {"loss": 1.0}), (6, {"validation_loss": 1.0})])
    start_attempt(tmp_path, 2, None)
    write_rows(tmp_path, [(1, {"loss": 2.0})], attempt=2)
    assert losses(tmp_path, effective=True) == [(2, 1)]
    assert len(opened(tmp_path).series("validation_loss", 0, effective=True)) == 0


def test_script_that_restored_on_its_own(tmp_path: Path) -> None:
    """Of a script no one knows what it restored: its first step of the new attempt tells."""
    start_attempt(tmp_path, 1, None, kind="script")
    write_rows(tmp_path, [(step, {"loss": 1.0}) for step in range(1, 6)])
    start_attempt(tmp_path, 2, None, kind="script")
    assert losses(tmp_path, effective=True) == [(1, step) for step in range(1, 6)]
    write_rows(tmp_path, [(4, {"loss": 2.0})], attempt=2)
    assert losses(tmp_path, effective=True) == [(1, 1), (1, 2), (1, 3), (2, 4)]


def test_effective_window_is_the_effective_series(tmp_path: Path) -> None:
    """A window leaves out the same rows, also inside a block."""
    start_attempt(tmp_path, 1, None)
    steps = np.arange(1, 2001)
    write_columns(segment_path(tmp_path), {"loss": np.ones(2000)}, steps=steps, times=1.0 + steps)
    start_attempt(tmp_path, 2, 1100)
    write_rows(tmp_path, [(step, {"loss": 2.0}) for step in range(1101, 1201)], attempt=2)
    metrics = opened(tmp_path)
    assert metrics.window("loss", 0, 0, 2000, 1).counts.tolist() == [2100]
    window = metrics.window("loss", 0, 0, 2000, 4, effective=True)
    assert window.counts.tolist() == [499, 500, 201, 0]
    assert window.high.tolist()[:3] == [1.0, 1.0, 2.0]


def test_newer_journal_is_refused(tmp_path: Path) -> None:
    """A run of a newer Torchdeck says so instead of showing a part."""
    node = RunLayout(tmp_path).node("localhost")
    node.root.mkdir(parents=True)
    node.journal.write_text('{"v": 99, "t": 1, "m": 1, "event": "attempt_started"}\n')
    with pytest.raises(NewerFormatError, match="update Torchdeck"):
        opened(tmp_path)
