"""What went wrong first, from files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from torchdeck.agent.ranks.failures import (
    CLOCK_STEP,
    TAIL_BYTES,
    first_failure,
    how_it_ended,
    last_traceback,
    rank_failure,
    read_tail,
    signal_of,
    torchrun_failure,
)
from torchdeck.contract.layout import AttemptLayout

TRACE = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    boom()\n'
FOREVER = float("inf")


def rank_with(
    attempt: AttemptLayout, rank: int, code: int, at: float, *, stderr: str = "", error: object = None
) -> None:
    folder = attempt.rank(rank)
    folder.root.mkdir(parents=True)
    folder.exit.write_text(f"{code}\n")
    os.utime(folder.exit, (at, at))
    folder.stderr.write_text(stderr)
    if error is not None:
        folder.error.write_text(json.dumps(error))
        os.utime(folder.error, (at - 1, at - 1))


def test_who_was_killed_failed_before_who_says_that_a_connection_is_lost(tmp_path: Path) -> None:
    """Its exit may be written a moment late; a signal that comes later than that is a consequence too."""
    for delay, first in ((0.5, 1), (1.5, 0)):
        attempt = AttemptLayout(tmp_path / str(delay))
        rank_with(attempt, 0, 1, 1001.0, stderr=TRACE + "RuntimeError: Connection closed by peer\n", error={})
        rank_with(attempt, 1, 137, 1000.0 + delay)
        rank_with(attempt, 2, 134, 1000.1)  # SIGABRT
        failure = first_failure(attempt, range(3), tmp_path / "none", FOREVER, stopped=False)
        assert failure is not None
        assert failure.rank == first


def test_the_earliest_failure_counts_not_its_consequences(tmp_path: Path) -> None:
    """Rank 2 failed first by time; rank 0 died later of a lost connection, rank 1 of SIGTERM before both."""
    attempt = AttemptLayout(tmp_path)
    rank_with(attempt, 0, 1, 1005.0, stderr=TRACE + "RuntimeError: Connection closed by peer\n")
    rank_with(attempt, 1, 143, 1001.0)
    rank_with(attempt, 2, 1, 1002.0, stderr=TRACE + "ValueError: mine\n")
    failure = first_failure(attempt, range(3), tmp_path / "log", FOREVER, stopped=False)
    assert failure is not None
    assert (failure.rank, failure.message) == (2, "ValueError: mine")


def test_a_rank_that_is_aborted_on_its_way_out_failed_of_what_it_raised(tmp_path: Path) -> None:
    """gloo's threads may still run when the interpreter ends; an exception long before is no cause."""
    aborted = "terminate called without an active exception\n"
    for name, between, said in (("a", "", "ValueError: mine"), ("b", "going on\n", how_it_ended(134))):
        attempt = AttemptLayout(tmp_path / name)
        rank_with(attempt, 0, 134, 1000.0, stderr=TRACE + "ValueError: mine\n" + between + aborted)
        failure = first_failure(attempt, range(1), tmp_path / "none", FOREVER, stopped=False)
        assert failure is not None
        assert (failure.message, failure.signal) == (said, 6)


def test_what_died_after_our_own_signal_is_no_failure(tmp_path: Path) -> None:
    """A stop was sent at 1000; what ended later ended of it."""
    attempt = AttemptLayout(tmp_path)
    rank_with(attempt, 0, 1, 1005.0, stderr=TRACE + "KeyboardInterrupt\n")
    assert first_failure(attempt, range(1), tmp_path / "log", 1000.0, stopped=True) is None


def test_what_died_of_our_signal_at_once_is_no_failure(tmp_path: Path) -> None:
    """The time of a file ticks: it may lie a moment before the signal that the rank died of."""
    attempt = AttemptLayout(tmp_path)
    rank_with(attempt, 0, 143, 1000.0 - CLOCK_STEP / 2)
    assert first_failure(attempt, range(1), tmp_path / "log", 1000.0, stopped=True) is None
    assert first_failure(attempt, range(1), tmp_path / "log", 1000.0, stopped=False) is None
    assert first_failure(attempt, range(1), tmp_path / "log", 1000.0 + CLOCK_STEP, stopped=False) is not None


def test_a_slow_interpreter_exit_does_not_hide_who_failed_first(tmp_path: Path) -> None:
    """Rank 0 wrote error.json before its peer died, and exited after it."""
    attempt = AttemptLayout(tmp_path)
    rank_with(
        attempt, 0, 1, 1002.0, error={"message": "ValueError: mine", "traceback": TRACE + "ValueError: mine"}
    )
    rank_with(attempt, 1, 1, 1001.5, stderr=TRACE + "RuntimeError: Connection closed by peer\n")
    failure = first_failure(attempt, range(2), tmp_path / "log", FOREVER, stopped=False)
    assert failure is not None
    assert failure.rank == 0


def test_who_raised_first_failed_first_whoever_ends_before(tmp_path: Path) -> None:
    """A script has no error.json: torch's words of its exception are written before its connections close.

    A traceback without torch's prefix may be one that was caught long ago.
    """
    peer = TRACE + "RuntimeError: Connection closed by peer\n"
    for prefix, first in (("[rank1]: ", 1), ("", 0)):
        attempt = AttemptLayout(tmp_path / f"of {first}")
        mine = "".join(f"{prefix}{line}\n" for line in (TRACE + "ValueError: mine").splitlines())
        for rank, words, wrote, ended in ((0, peer, 1001.0, 1001.5), (1, mine, 1000.5, 1002.0)):
            rank_with(attempt, rank, 1, ended, stderr=words)
            os.utime(attempt.rank(rank).stderr, (wrote, wrote))
        failure = first_failure(attempt, range(2), tmp_path / "log", FOREVER, stopped=False)
        assert failure is not None
        assert failure.rank == first


def test_an_explained_error_needs_no_traceback(tmp_path: Path) -> None:
    """Our trainer's own sentences stand alone; their traceback stays in error.json."""
    attempt = AttemptLayout(tmp_path)
    extra = {"py_callstack": TRACE, "timestamp": "1", "explained": True}
    error = {"message": {"message": "CheckpointError: of another model", "extraInfo": extra}}
    rank_with(attempt, 0, 1, 1000.0, error=error, stderr=TRACE + "OSError: of something before\n")
    failure = rank_failure(attempt.rank(0), 0)
    assert failure is not None
    assert (failure.message, failure.traceback) == ("CheckpointError: of another model", "")


def test_torchruns_error_file_gives_the_callstack(tmp_path: Path) -> None:
    """The format of @record: message and extraInfo.py_callstack."""
    attempt = AttemptLayout(tmp_path)
    stack = TRACE + "ValueError: mine\n"
    error = {
        "message": {"message": "ValueError: mine", "extraInfo": {"py_callstack": stack, "timestamp": "1"}}
    }
    rank_with(attempt, 0, 1, 1000.0, error=error)
    failure = rank_failure(attempt.rank(0), 0)
    assert failure is not None
    assert failure.traceback == stack.strip()
    assert failure.message == "ValueError: mine"


@pytest.mark.parametrize("garbage", ["", "[]", "{", '{"message": 3}', '{"message": {"extraInfo": []}}'])
def test_a_damaged_error_file_is_no_obstacle(tmp_path: Path, garbage: str) -> None:
    """The exit code still tells."""
    attempt = AttemptLayout(tmp_path)
    rank_with(attempt, 0, 5, 1000.0)
    attempt.rank(0).error.write_text(garbage)
    failure = rank_failure(attempt.rank(0), 0)
    assert failure is not None
    assert (failure.code, failure.message) == (5, "exit code 5")


def test_a_chained_traceback_is_kept_whole() -> None:
    """Cause and consequence belong together; what was printed before and after does not."""
    cause = TRACE + "KeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\n"
    text = "noise\n" + TRACE + "OSError: an old one\nmore\n" + cause + TRACE + "ValueError: 2\nlater noise\n"
    assert last_traceback(text) == (cause + TRACE + "ValueError: 2")


def test_the_rank_prefix_of_torch_is_taken_off() -> None:
    """torch writes "[rank1]: " before each line once a process group is up."""
    text = "".join(f"[rank1]: {line}\n" for line in (TRACE + "ValueError: 2").splitlines())
    assert last_traceback(text) == TRACE + "ValueError: 2"


def test_a_text_without_a_traceback_has_none() -> None:
    """None, not a guess."""
    assert last_traceback("all is well\n") is None


def test_a_log_of_any_size_is_read_from_its_end(tmp_path: Path) -> None:
    """Bounded, and no error when the file is not there."""
    path = tmp_path / "log"
    path.write_bytes(b"x" * (TAIL_BYTES + 10) + b"end")
    assert len(read_tail(path)) == TAIL_BYTES
    assert read_tail(path).endswith("end")
    assert read_tail(tmp_path / "none") == ""


def test_signals_are_told_from_codes() -> None:
    """128 + n is signal n, and SIGKILL hints at memory."""
    assert [signal_of(code) for code in (None, 0, 1, 128, 137, 143, 255)] == [
        None,
        None,
        None,
        None,
        9,
        15,
        None,
    ]
    assert "memory" in how_it_ended(137)
    assert how_it_ended(3) == "exit code 3"


def test_torchruns_own_failure_is_its_last_line(tmp_path: Path) -> None:
    """Where no rank can be blamed."""
    log = tmp_path / "log"
    log.write_text("starting\nValueError: --nproc-per-node\n")
    assert torchrun_failure(1, log).message == "torchrun failed: ValueError: --nproc-per-node"
    assert "SIGKILL" in torchrun_failure(137, log).message
    assert "without an exit status" in torchrun_failure(None, log).message
