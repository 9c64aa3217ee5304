"""What a person reads at a run's end."""

from __future__ import annotations

import pytest

from support.histories import ALIVE, DEAD, controller_journal, ended, event, failure, finished, running_run
from torchdeck.rundir.journal import Event
from torchdeck.runs.state import Liveness
from torchdeck.runs.summary import TRACEBACK_LINES, shortened, summary_lines
from torchdeck.runs.view import fold


def summary(node: list[Event], liveness: Liveness = DEAD) -> str:
    return "\n".join(summary_lines(fold("r", controller_journal(), {"localhost": node}, {}, liveness, 1e6)))


def test_failed_run_names_rank_code_and_traceback() -> None:
    """First failing rank, how it ended, its traceback, and where to read on."""
    text = summary([*running_run(), ended(1, "failed", failure(1)), finished("FAILED", why="")])
    assert "FAILED" in text
    assert "rank 1 failed with exit code 1" in text
    assert "Traceback" in text
    assert "output: torchdeck runs logs r --rank 1\n" in text
    assert text.endswith("errors: torchdeck runs logs r --rank 1 --stderr")


def test_what_failed_is_said_once() -> None:
    """Where the reason names the rank, no second sentence does."""
    why = "rank 1 failed first: CheckpointError: of another model (exit code 1)"
    first = failure(1, message="CheckpointError: of another model", traceback="")
    text = summary([*running_run(), ended(1, "failed", first), finished("FAILED", why=why)])
    assert text.count("rank 1 failed") == 1
    assert text.count("another model") == 1


def test_directory_is_named_once() -> None:
    """With the run's directory the checkpoint in it goes by its short path; one elsewhere by all of it."""
    node = [*running_run(), event("checkpoint", step=4, path="/runs/r/checkpoints/s"), ended(), finished()]
    view = fold("r", controller_journal(), {"localhost": node}, {}, DEAD, 1e6)
    assert "  directory: /runs/r" in summary_lines(view, "/runs/r")
    assert "  last checkpoint: step 4, checkpoints/s" in summary_lines(view, "/runs/r")
    assert "  last checkpoint: step 4, /runs/r/checkpoints/s" in summary_lines(view, "/runs/other")


def test_killed_rank_names_its_signal() -> None:
    """A signal is said by its name."""
    first = failure(0, code=None, signal="SIGKILL", traceback=None, message="")
    assert "rank 0 was ended by SIGKILL" in summary(
        [*running_run(), ended(1, "failed", first), finished("FAILED", why="")]
    )


@pytest.mark.parametrize("resumable", [True, False])
def test_resume_is_offered_only_where_it_works(resumable: bool) -> None:
    """The command is there exactly when the run can be resumed."""
    text = summary([*running_run(), ended(1, "stopped"), finished("CANCELLED", resumable=resumable)])
    assert ("torchdeck runs resume r" in text) is resumable


def test_checkpoint_and_damage_are_said() -> None:
    """The newest checkpoint by step and path, and one that was not used with its reason."""
    seen = event("checkpoint", step=40, path="/c/step_00000040")
    bad = event("checkpoint_damaged", path="/c/step_00000050", why="hash of a differs")
    text = summary([*running_run(), seen, bad, ended(), finished()])
    assert "step 40, /c/step_00000040" in text
    assert "/c/step_00000050 is damaged" in text


def test_running_run_says_how_to_watch_and_stop() -> None:
    """What to type next while it goes on."""
    text = summary(running_run(), ALIVE)
    assert "runs attach r" in text
    assert "runs stop r" in text


def test_long_traceback_keeps_both_ends() -> None:
    """The middle is left out, and how much of it is said."""
    lines = shortened("\n".join(f"line {number}" for number in range(100)))
    assert lines[0] == "line 0"
    assert lines[-1] == "line 99"
    assert len(lines) == TRACEBACK_LINES + 1
