"""A rank's progress record: whole or not at all."""

import itertools
import os
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.contract.metrics.progress import PHASES, WATCHED_PHASES, ProgressFile, StepTimes, read_progress


@settings(deadline=None)
@given(
    st.sampled_from(PHASES),
    st.integers(0, 2**62),
    st.none() | st.integers(0, 2**62),
    st.none() | st.floats(0, 1e6),
)
def test_report_is_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    phase: str,
    step: int,
    total: int | None,
    slow_step: float | None,
) -> None:
    """What was reported is what is read, with who and when."""
    path = tmp_path_factory.mktemp("rank") / "progress"
    ProgressFile(path).report(phase, step, total=total, slow_step=slow_step)
    progress = read_progress(path)
    assert progress is not None
    assert (progress.phase, progress.step, progress.total, progress.slow_step) == (
        phase,
        step,
        total,
        slow_step,
    )
    assert progress.pid == os.getpid()
    assert progress.time > 1.7e9
    assert progress.monotonic > 0


def test_last_report_counts(tmp_path: Path) -> None:
    """A report overwrites the one before; the file does not grow."""
    file = ProgressFile(tmp_path / "deep" / "progress")
    file.report("training", 1, total=10, slow_step=0.5)
    size = (tmp_path / "deep" / "progress").stat().st_size
    file.report("saving", 2)
    progress = read_progress(tmp_path / "deep" / "progress")
    assert progress is not None
    assert (progress.phase, progress.step, progress.total, progress.slow_step) == ("saving", 2, None, None)
    assert (tmp_path / "deep" / "progress").stat().st_size == size


@pytest.mark.parametrize("content", [b"", b"TDPROG1\n", b"x" * 200, b"\0" * 200], ids=len)
def test_what_is_no_record_is_none(tmp_path: Path, content: bytes) -> None:
    """A torn, foreign or empty file is no progress."""
    (tmp_path / "progress").write_bytes(content)
    assert read_progress(tmp_path / "progress") is None
    assert read_progress(tmp_path / "absent") is None


def test_one_changed_byte_is_seen(tmp_path: Path) -> None:
    """A record with any byte changed is no progress, and so no mixture of two."""
    path = tmp_path / "progress"
    ProgressFile(path).report("training", 123456, total=10**6, slow_step=0.25)
    record = path.read_bytes()
    for index in range(len(record)):
        path.write_bytes(record[:index] + bytes([record[index] ^ 1]) + record[index + 1 :])
        assert read_progress(path) is None


def test_reader_never_sees_half_a_record(tmp_path: Path) -> None:
    """Read while it is overwritten thousands of times, a record is always one that was written."""
    path = tmp_path / "progress"
    file = ProgressFile(path)
    file.report("training", 0, total=0)
    done = threading.Event()

    def write() -> None:
        for step in itertools.count(1):
            if done.is_set():
                return
            file.report("training", step, total=step)

    writer = threading.Thread(target=write)
    writer.start()
    seen, limit = 0, time.monotonic() + 60
    try:
        while seen < 5000:
            assert time.monotonic() < limit, f"only {seen} records were read in 60 s"
            progress = read_progress(path)
            if progress is not None:
                assert progress.step == progress.total
                assert progress.step >= seen
                seen = progress.step
    finally:
        done.set()
        writer.join()


def test_unwritable_progress_does_not_raise(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A folder that cannot be made is said once; the training continues, and later reports are written."""
    (tmp_path / "rank").write_text("in the way")
    file = ProgressFile(tmp_path / "rank" / "progress")
    file.report("training", 1)
    file.report("training", 2)
    assert len(caplog.records) == 1
    (tmp_path / "rank").unlink()
    file.report("training", 3)
    progress = read_progress(tmp_path / "rank" / "progress")
    assert progress is not None
    assert progress.step == 3
    file.close()


def test_unknown_phase_is_refused(tmp_path: Path) -> None:
    """A phase that the agent would not know is a mistake of the caller."""
    with pytest.raises(ValueError, match="training"):
        ProgressFile(tmp_path / "progress").report("napping", 1)
    assert set(PHASES) >= WATCHED_PHASES


def test_slow_step_is_the_nearest_rank_percentile() -> None:
    """99 of 100 steps are not slower than the slow step; without steps there is none."""
    times = StepTimes()
    assert times.slow_step is None
    for duration in range(100, 0, -1):
        times.add(float(duration))
    assert times.slow_step == 99.0


def test_slow_step_forgets_what_is_long_ago() -> None:
    """Only the last 256 steps count, so a slow start does not hide a hang for ever."""
    times = StepTimes()
    times.add(1000.0)
    for _ in range(256):
        times.add(0.1)
    assert times.slow_step == 0.1
