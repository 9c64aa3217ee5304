"""MergedLog: the output of all ranks as one list."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.agent.ranks.observation import LogTimes
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.log_times import ROW, LogClock
from torchdeck.runs.logs.line_index import LineIndex
from torchdeck.runs.logs.line_pattern import LinePattern, PatternError, SlowPatternError
from torchdeck.runs.logs.merged import MergedLog, as_shown
from torchdeck.runs.logs.search import LineSearch, error_search


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return RunLayout(tmp_path / "run")


def say(layout: RunLayout, rank: int, text: str, stream: str = "stdout", attempt: int = 1) -> None:
    folder = layout.attempt(attempt).rank(rank)
    folder.root.mkdir(parents=True, exist_ok=True)
    with (folder.root / f"{stream}.log").open("a") as file:
        file.write(text)


def note(layout: RunLayout, rank: int, moment: float, stdout: int, stderr: int = 0, attempt: int = 1) -> None:
    with layout.attempt(attempt).rank(rank).log_times.open("ab") as file:
        file.write(ROW.pack(moment, stdout, stderr))


def texts(log: MergedLog) -> list[str]:
    return [f"{line.source.rank}:{line.text}" for line in log.read(0, len(log))]


def found(search: LineSearch) -> list[int]:
    numbers = []
    while not search.is_over:
        numbers += search.step()
    return numbers


def test_lines_of_all_ranks_stand_in_the_order_of_their_times(layout: RunLayout) -> None:
    say(layout, 0, "a\nb\nc\n")
    say(layout, 1, "d\ne\n")
    note(layout, 0, 100.0, 2)
    note(layout, 0, 103.0, 6)
    note(layout, 1, 101.0, 2)
    note(layout, 1, 102.0, 4)
    log = MergedLog(layout)
    log.advance()
    assert texts(log) == ["0:a", "1:d", "1:e", "0:b", "0:c"]
    assert [line.time for line in log.read(0, 5)] == [100.0, 101.0, 102.0, 103.0, 103.0]
    assert log.ranks == [0, 1]


def test_what_nobody_noted_yet_comes_last_and_stays(layout: RunLayout) -> None:
    say(layout, 0, "a\n")
    say(layout, 1, "b\n")
    note(layout, 1, 100.0, 2)
    log = MergedLog(layout)
    log.advance()
    assert texts(log) == ["1:b", "0:a"]
    say(layout, 1, "c\n")
    note(layout, 0, 101.0, 2)
    log.advance()
    assert texts(log) == ["1:b", "0:a", "1:c"]


def test_a_line_that_grows_stays_the_same_line(layout: RunLayout) -> None:
    say(layout, 0, "10%|█ |\r20%")
    log = MergedLog(layout)
    log.advance()
    assert texts(log) == ["0:20%"]
    say(layout, 0, "\r100%\nnext\n")
    log.advance()
    assert texts(log) == ["0:100%", "0:next"]


def test_ranks_streams_and_attempts_can_be_chosen(layout: RunLayout) -> None:
    say(layout, 0, "out\n")
    say(layout, 0, "error\n", "stderr")
    say(layout, 1, "other\n")
    say(layout, 0, "again\n", attempt=2)
    chosen = {
        "rank": MergedLog(layout, rank=1),
        "stream": MergedLog(layout, streams=("stderr",)),
        "attempt": MergedLog(layout, attempt=2),
    }
    for log in chosen.values():
        log.advance()
    assert {name: texts(log) for name, log in chosen.items()} == {
        "rank": ["1:other"],
        "stream": ["0:error"],
        "attempt": ["0:again"],
    }


def test_a_moment_leads_to_its_line(layout: RunLayout) -> None:
    say(layout, 0, "".join(f"{number:04d}\n" for number in range(1000)))
    for second in range(10):
        note(layout, 0, 100.0 + second, 500 * (second + 1))
    log = MergedLog(layout)
    log.advance()
    assert log.line_at(0) == 0
    assert log.read(log.line_at(105.0), 1)[0].text == "0500"
    assert log.line_at(1e9) == 999


def test_the_agent_writes_times_that_the_reader_finds(layout: RunLayout) -> None:
    before = time.time() - 0.1  # file systems' clocks are coarse
    say(layout, 0, "a\n")
    log_times = LogTimes(layout.attempt(1).rank(0))
    assert log_times.note()
    assert not log_times.note()
    say(layout, 0, "b\n", "stderr")
    with layout.attempt(1).rank(0).log_times.open("ab") as file:
        file.write(b"torn")
    assert LogTimes(layout.attempt(1).rank(0)).note()
    log = MergedLog(layout)
    log.advance()
    assert texts(log) == ["0:a", "0:b"]
    assert all(before <= (line.time or 0) <= time.time() for line in log.read(0, 2))


def test_output_while_no_agent_lived_has_the_time_of_its_last_write(layout: RunLayout) -> None:
    """Not that of the agent that came an hour later; never before what was recorded."""
    rank = layout.attempt(1).rank(0)
    say(layout, 0, "a\n")
    os.utime(rank.stdout, (5000.0, 5000.0))
    assert LogTimes(rank).note()
    say(layout, 0, "b\n")
    os.utime(rank.stdout, (4000.0, 4000.0))
    assert LogTimes(rank).note()
    say(layout, 0, "c\n")
    os.utime(rank.stdout, (6000.0, 6000.0))
    assert LogTimes(rank).note()
    log = MergedLog(layout)
    log.advance()
    assert [(line.text, line.time) for line in log.read(0, 3)] == [
        ("a", 5000.0),
        ("b", 5000.0),
        ("c", 6000.0),
    ]


def test_a_burst_is_taken_in_over_several_looks(layout: RunLayout) -> None:
    say(layout, 0, "0123456789\n" * 1000)
    log = MergedLog(layout)
    assert log.advance(limit=5000)
    assert 0 < len(log) < 1000
    while log.advance(limit=5000):
        pass
    assert len(log) == 1000


def test_logs_of_any_length_are_listed_in_the_order_of_their_times(layout: RunLayout) -> None:
    for rank in range(4):
        say(layout, rank, "".join(f"{second:03d} {rank} {'x' * 200}\n" for second in range(500)))
        for second in range(500):
            note(layout, rank, 100.0 + second, (second + 1) * 207)
    log = MergedLog(layout)
    while log.advance(limit=20_000):
        pass
    seconds = [int(text[:3]) for line in log.read(0, len(log)) for text in (line.text,)]
    assert len(seconds) == 2000
    assert seconds == sorted(seconds)


def test_what_is_printed_now_has_a_time_before_anybody_noted_it(layout: RunLayout) -> None:
    log = MergedLog(layout)
    log.advance()
    before = time.time()
    say(layout, 0, "a\n")
    log.advance()
    (line,) = log.read(0, 1)
    assert line.time is not None
    assert abs(line.time - before) < 5


def test_a_log_whose_times_nobody_noted_has_none(layout: RunLayout) -> None:
    say(layout, 0, "a\n")
    log = MergedLog(layout)
    log.advance()
    assert log.read(0, 1)[0].time is None


def test_a_clock_keeps_no_more_than_is_needed(layout: RunLayout) -> None:
    say(layout, 0, "")
    for second in range(5000):
        note(layout, 0, 100.0 + second, second + 1)
    clock = LogClock(layout.attempt(1).rank(0).log_times, "stdout")
    assert [clock.row_after(offset) for offset in (0, 700, 4999, 5000)] == [
        (100.0, 1),
        (800.0, 701),
        (5099.0, 5000),
        None,
    ]
    assert not clock._rows


def test_what_a_terminal_would_not_show_is_gone() -> None:
    assert as_shown(b"\x1b[1;31mERROR\x1b[0m: \xff\r") == "ERROR: \ufffd"
    assert as_shown(b"\x1b]0;title\x07text") == "text"


def test_lines_are_found_by_a_regular_expression(layout: RunLayout) -> None:
    say(layout, 0, "".join(f"step {number} loss nan\n" for number in range(10_000)))
    log = MergedLog(layout)
    log.advance()
    assert found(LineSearch(log, LinePattern(r"STEP 99\d\d "))) == list(range(9900, 10_000))
    assert found(LineSearch(log, LinePattern(r"STEP", match_case=True))) == []
    assert found(LineSearch(log, LinePattern(r"step"), first=9999)) == [9999]
    with pytest.raises(PatternError, match="at character"):
        LinePattern("(")


def test_a_line_is_searched_again_when_it_ends(layout: RunLayout) -> None:
    say(layout, 0, "first\nTrace")
    say(layout, 1, "other\n")
    log = MergedLog(layout)
    log.advance()
    search = LineSearch(log, LinePattern("Traceback|other"))
    assert [log.read(line, 1)[0].text for line in found(search)] == ["other"]
    assert search.is_over
    say(layout, 0, "back\nmore\n")
    log.advance()
    assert [log.read(line, 1)[0].text for line in found(search)] == ["Traceback"]
    assert search.is_over


@pytest.mark.parametrize("line", ["a" * 5000 + "!", "é" + "a" * 5000 + "!"])
def test_a_search_that_would_take_for_ever_says_where_it_ends(layout: RunLayout, line: str) -> None:
    say(layout, 0, f"first\n{line}\n")
    log = MergedLog(layout)
    log.advance()
    with pytest.raises(SlowPatternError, match=r"takes too long, in line [12] of the log or behind it"):
        found(LineSearch(log, LinePattern("(a+)+$")))


WORDS = st.sampled_from(
    ["step", "Step 1", "é", "ERROR", "a\r", "\x1b[1mERR\x1b[0mOR", "", "x" * 200, "\t1 2"]
)
PATTERNS = (
    "step",
    "^ERROR$",
    r"\w$",
    r"\bé",
    r"1\s+2",
    r"^$",
    r"\A\s",
    "(?i:STEP)",
    r"p\s",
    "[^x]*x",
    "",
    r"\s*+$",
    r"x\K\s",
    "s(?=\n|$)",
)


@settings(max_examples=50, deadline=None)
@given(
    said=st.lists(st.lists(WORDS, max_size=3).map("".join), max_size=40), pattern=st.sampled_from(PATTERNS)
)
def test_a_search_finds_what_looking_at_each_line_finds(
    tmp_path_factory: pytest.TempPathFactory, said: list[str], pattern: str
) -> None:
    layout = RunLayout(tmp_path_factory.mktemp("run"))
    say(layout, 0, "".join(f"{line}\n" for line in said))
    log = MergedLog(layout)
    log.advance()
    sought = LinePattern(pattern)
    lines = log.read(0, len(log))
    assert found(LineSearch(log, sought)) == [at for at, line in enumerate(lines) if sought.is_in(line.text)]


@pytest.mark.parametrize(
    ("line", "is_error"),
    [
        ("Traceback (most recent call last):", True),
        ("ValueError: no such rank", True),
        ("torch.OutOfMemoryError: CUDA out of memory", True),
        ("[rank1]: ERROR something", True),
        ("KeyboardInterrupt", True),
        ("error rate 0.2", False),
        ("  raise ValueError(text)", False),
        ("step 1 loss 2.0", False),
    ],
)
def test_errors_are_recognised(layout: RunLayout, line: str, is_error: bool) -> None:
    say(layout, 0, f"step 1\n{line}\n")
    log = MergedLog(layout)
    log.advance()
    assert found(error_search(log)) == ([1] if is_error else [])


def test_lines_of_a_file_that_follow_each_other_are_read_at_once(
    layout: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many seconds they are of, and whatever other ranks printed between them."""
    for rank in (0, 1):
        say(layout, rank, "".join(f"{second:02d}\n" for second in range(50)))
        for second in range(50):
            note(layout, rank, 100.0 + second, 3 * (second + 1))
    log = MergedLog(layout)
    log.advance()
    reads: list[tuple[int, int]] = []
    original = LineIndex.read

    def read(index: LineIndex, first: int, count: int) -> list[bytes]:
        reads.append((first, count))
        return original(index, first, count)

    monkeypatch.setattr(LineIndex, "read", read)
    wanted = [f"{rank}:{second:02d}" for second in range(10, 30) for rank in (0, 1)]
    assert [f"{line.source.rank}:{line.text}" for line in log.read(20, 40)] == wanted
    assert reads == [(10, 20), (10, 20)]


def test_a_clock_that_was_set_back_loses_no_line(layout: RunLayout) -> None:
    say(layout, 0, "".join(f"{number}\n" for number in range(6)))
    for time_, lines in ((100.0, 2), (105.0, 4), (102.0, 6)):
        note(layout, 0, time_, 2 * lines)
    log = MergedLog(layout)
    log.advance()
    assert sorted(line.text for line in log.read(0, 6)) == [str(number) for number in range(6)]
    assert [log.read(at, 1)[0] for at in range(6)] == log.read(0, 6)
