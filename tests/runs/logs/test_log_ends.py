"""The last lines of a run, read from the ends of its logs: the order of the log view, at any size."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.log_times import ROW
from torchdeck.contract.rank_layout import RankLayout
from torchdeck.runs.logs import log_ends
from torchdeck.runs.logs.log_ends import LogEnds
from torchdeck.runs.logs.merged import STREAMS, MergedLog

GIB = 1 << 30

Burst = tuple[int, int, bytes]
"""Rank, stream, and what it printed within a second."""
BURSTS = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(0, 1), st.sampled_from([b"a\n", b"b\nc\n", b"d", b"\n", b"e\r\n"])
    ),
    max_size=25,
)


def write(run: RunLayout, bursts: list[Burst]) -> None:
    """Let ranks print, one burst a second, and record the times as an agent does."""
    for second, (number, stream, text) in enumerate(bursts):
        rank = run.attempt(1 + (2 * second > len(bursts))).rank(number)
        rank.root.mkdir(parents=True, exist_ok=True)
        with (rank.stdout if stream == 0 else rank.stderr).open("ab") as file:
            file.write(text)
        note(rank, 1000.0 + second)


def note(rank: RankLayout, time: float) -> None:
    lengths = [path.stat().st_size if path.exists() else 0 for path in (rank.stdout, rank.stderr)]
    with rank.log_times.open("ab") as file:
        file.write(ROW.pack(time, *lengths))


@settings(deadline=None)
@given(BURSTS, st.integers(0, 30), st.integers(1, 7))
def test_the_order_is_that_of_the_log_view(bursts: list[Burst], count: int, piece: int) -> None:
    """Whatever ranks printed, and however it lies in the pieces that are read."""
    folder = Path(tempfile.mkdtemp())
    before = log_ends.PIECE
    log_ends.PIECE = piece
    try:
        run = RunLayout(folder)
        write(run, bursts)
        log = MergedLog(run)
        while log.advance():
            pass
        lines = [(line.source.rank, line.source.stream, line.text) for line in log.read(0, len(log))]
        ends = LogEnds(run, streams=STREAMS)
        newest = [(line.rank, line.stream, line.text) for line in ends.newest(count)]
        assert newest == (lines[-count:] if count else [])
        moment = 1000.0 + count
        later = [(line.rank, line.stream, line.text) for line in ends.since(moment)]
        wanted = [line for line in log.read(0, len(log)) if line.time is not None and line.time >= moment]
        assert later == [(line.source.rank, line.source.stream, line.text) for line in wanted]
        assert newest[-len(later) :] == later or len(later) > count or not later
    finally:
        log_ends.PIECE = before
        shutil.rmtree(folder)


@pytest.fixture
def large(tmp_path: Path) -> RunLayout:
    """A run whose two ranks printed 1 GiB each, nearly all of it a hole, in a day."""
    run = RunLayout(tmp_path)
    for number in range(2):
        rank = run.attempt(1).rank(number)
        rank.root.mkdir(parents=True)
        with rank.stdout.open("wb") as file:
            file.truncate(GIB)
            file.seek(GIB)
            file.writelines(b"\nstep %d" % step for step in range(1000))
            size = file.tell()
        every = GIB // 86_400
        rows = b"".join(ROW.pack(1000.0 + second, second * every, 0) for second in range(86_400))
        rank.log_times.write_bytes(rows + ROW.pack(90_000.0 + number, size, 0))
    return run


def test_the_end_of_a_gigabyte_costs_a_few_reads(large: RunLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the bytes that are read, not by the clock."""
    read: list[int] = []
    pread = os.pread

    def counted(descriptor: int, length: int, offset: int) -> bytes:
        read.append(length)
        return pread(descriptor, length, offset)

    monkeypatch.setattr(os, "pread", counted)
    ends = LogEnds(large, streams=("stdout",))
    found = ends.newest(12)
    assert [(line.rank, line.text) for line in found] == [(1, f"step {step}") for step in range(988, 1000)]
    assert sum(read) <= 2 * log_ends.PIECE
    read.clear()
    found = ends.newest(1500)
    assert (found[0].rank, found[0].text, found[-1].text) == (0, "step 500", "step 999")
    assert sum(read) <= 4 * log_ends.PIECE
    read.clear()
    since = list(ends.since(90_000.5))
    assert [line.text for line in since] == [f"step {step}" for step in range(1000)]
    assert sum(read) <= 16 * log_ends.PIECE


def test_a_line_that_is_still_being_written_is_left_out_if_asked(tmp_path: Path) -> None:
    """Who follows reads it once it has ended, from `positions`."""
    run = RunLayout(tmp_path)
    rank = run.attempt(1).rank(0)
    rank.root.mkdir(parents=True)
    rank.stdout.write_bytes(b"one\ntwo\nthr")
    ends = LogEnds(run, streams=("stdout",), ended_only=True)
    assert [line.text for line in ends.newest(5)] == ["one", "two"]
    assert ends.positions == {(1, 0, "stdout"): 8}
    assert [line.text for line in LogEnds(run, streams=("stdout",)).newest(5)] == ["one", "two", "thr"]


def test_a_progress_bar_of_many_megabytes_is_shown_as_it_is_last(tmp_path: Path) -> None:
    """A line without an end is not searched for its beginning."""
    run = RunLayout(tmp_path)
    rank = run.attempt(1).rank(0)
    rank.root.mkdir(parents=True)
    rank.stderr.write_bytes(b"begin\n" + b"".join(b"\r%08d/9" % step for step in range(300_000)))
    ends = LogEnds(run, streams=("stderr",))
    assert [line.text for line in ends.newest(1)] == ["00299999/9"]


def test_ranks_without_output_or_times(tmp_path: Path) -> None:
    """Nothing is nothing; lines without a recorded time count from when their file was last written."""
    run = RunLayout(tmp_path)
    assert LogEnds(run, streams=STREAMS).newest(3) == []
    rank = run.attempt(1).rank(0)
    rank.root.mkdir(parents=True)
    assert list(LogEnds(run, streams=STREAMS).since(0)) == []
    rank.stdout.write_bytes(b"one\n")
    os.utime(rank.stdout, (5000, 5000))
    ends = LogEnds(run, streams=STREAMS)
    assert [line.text for line in ends.since(4999)] == ["one"]
    assert list(ends.since(5001)) == []
    assert ends.newest(3, since=5001) == []
