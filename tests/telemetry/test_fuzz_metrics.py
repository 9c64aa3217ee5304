"""Hostile metric segments, progress records and log times, through all that reads them."""

from __future__ import annotations

import contextlib
import json
import math
import struct
import zlib
from pathlib import Path

from hypothesis import strategies as st

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.log_times import ROW, LogClock
from torchdeck.contract.metrics.progress import read_progress
from torchdeck.contract.metrics.segment_format import SegmentError, decode_header
from torchdeck.metrics import Grid, RunMetrics, rows_between, sampled
from torchdeck.metrics.pace import seconds_a_step
from torchdeck.runs.metric_damage import MetricDamage
from torchdeck.runs.training_progress import ProgressReader

HEADER = {"torchdeck_metrics": 1, "source": "log", "keys": ["loss", "step_time"], "pid": 3, "created": 1e9}
STEPS = st.sampled_from((0, 1, 2, 3, -1, 2**63 - 1, -(2**63))) | st.integers(-5, 500)
TIMES = st.sampled_from((0.0, 1e9, 1e9 + 1, -1.0, math.nan, math.inf, -math.inf, 1e300, 5e-324))
NUMBERS = st.floats(width=64) | st.just(1.0)


@st.composite
def segments(draw: st.DrawFn) -> bytes:
    """A header, and rows of which some are no rows."""
    header = draw(hostile.documents(HEADER))
    rows = draw(st.lists(st.tuples(STEPS, TIMES, NUMBERS, NUMBERS), max_size=8))
    content = header + b" " * (-(len(header) + 1) % 64) + b"\n"
    content += b"".join(struct.pack("<qddd", *row) for row in rows) * draw(st.sampled_from((1, 1, 40, 300)))
    return draw(hostile.damaged(content)) if draw(st.booleans()) else content


def read_segment(case: bytes, place: Path) -> None:
    """Everything that the run list, a run's page and the exports do with one."""
    with contextlib.suppress(SegmentError):
        decode_header(case)
    folder = RunLayout(place).attempt(1).rank(0).metrics
    folder.mkdir(parents=True)
    (folder / "log-1-1-ab-0.metrics").write_bytes(case)
    metrics = RunMetrics(place)
    metrics.refresh()
    for name in metrics.names()[:2]:
        (rank,) = metrics.ranks(name)
        metrics.latest(name, rank)
        metrics.attempt_starts(name, rank)
        seconds_a_step(metrics, name, rank)
        sampled(metrics, name, rank, most=10, effective=True)
        assert len(metrics.series(name, rank)) >= 0
        for axis in ("step", "time"):
            extent = metrics.extent(name, rank, axis=axis)
            if extent is None:
                continue
            low, high = extent
            assert math.isfinite(low)
            assert low <= high < math.inf
            metrics.window(name, rank, low, high, 48, axis=axis, smoothing=0.9)
            rows_between(metrics, name, rank, low, high, most=100, axis=axis)
            Grid(metrics, low, high, 16, axis=axis).windows([name], rank)
    progress = ProgressReader(RunLayout(place))
    progress._rows()
    assert all(math.isnan(value) or math.isfinite(value) for value in progress.loss_curve())
    json.dumps(metrics.problems)


def test_segments() -> None:
    read_all(read_segment, segments())


def _checksum(block: int, rows: int, checksum: int) -> bytes:
    return struct.pack("<III", rows, checksum, zlib.crc32(struct.pack("<QII", block, rows, checksum)))


@st.composite
def checksums(draw: st.DrawFn) -> bytes:
    """Their length, entries that fit their places, and the segment that they are about."""
    numbers = draw(st.lists(st.tuples(st.integers(0, 600), st.integers(0, 2**32 - 1)), max_size=6))
    entries = b"".join(_checksum(block, *each) for block, each in enumerate(numbers))
    entries = draw(hostile.damaged(entries)) if entries and draw(st.booleans()) else entries
    return struct.pack("<I", len(entries)) + entries + draw(segments())


def read_checksums(case: bytes, place: Path) -> None:
    """As `runs show` and a run's page do."""
    (length,) = struct.unpack_from("<I", case)
    layout = RunLayout(place)
    folder = layout.attempt(1).rank(0).metrics
    folder.mkdir(parents=True)
    (folder / "log-1-1-ab-0.sums").write_bytes(case[4 : 4 + length])
    (folder / "log-1-1-ab-0.metrics").write_bytes(case[4 + length :])
    damage = MetricDamage(layout)
    for _ in range(2):
        json.dumps(damage.look())


def test_checksums_of_segments() -> None:
    read_all(read_checksums, checksums())


def _record(magic: bytes, numbers: tuple[int, int, int, int], times: tuple[float, float, float]) -> bytes:
    body = struct.pack("<8sIIqqddd", magic, *numbers, *times)
    return body + struct.pack("<I", zlib.crc32(body))


def read_progress_record(case: bytes, place: Path) -> None:
    path = place / "progress"
    path.write_bytes(case)
    found = read_progress(path)
    if found is not None:
        json.dumps([found.time, found.monotonic, found.slow_step], allow_nan=False)
        assert found.time >= 0


def test_progress_records() -> None:
    pids, phases = st.integers(0, 2**32 - 1), st.integers(0, 9)
    whole = st.builds(
        _record,
        st.sampled_from((b"TDPROG1\n", b"TDPROG2\n")),
        st.tuples(pids, phases, STEPS, STEPS),
        st.tuples(TIMES, TIMES, TIMES),
    )
    read_all(read_progress_record, whole | whole.flatmap(hostile.damaged))


def read_log_times(case: bytes, place: Path) -> None:
    path = place / "log_times"
    path.write_bytes(case)
    for stream in ("stdout", "stderr"):
        clock = LogClock(path, stream)
        before = 0.0
        for offset in (0, 10, 1000, 2**63):
            found = clock.row_after(offset)
            if found is not None:
                when, length = found
                assert before <= when < 1e12
                assert length > offset
                before = when


def test_times_of_logs() -> None:
    sizes = st.integers(0, 2**64 - 1) | st.integers(0, 2000)
    rows = st.lists(st.builds(ROW.pack, TIMES, sizes, sizes), max_size=20).map(b"".join)
    read_all(read_log_times, rows | rows.flatmap(hostile.damaged))
