"""What a person reads at a run's end."""

from __future__ import annotations

import pytest

from support.values.histories import (
    ALIVE,
    DEAD,
    agent_started,
    controller_journal,
    ended,
    event,
    failure,
    finished,
    fold,
    running_run,
    started,
)
from torchdeck.contract.journal import Event
from torchdeck.runs.run_state import Liveness
from torchdeck.runs.summary import TRACEBACK_LINES, shortened, summary_lines


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
    """What to type next while it continues."""
    text = summary(running_run(), ALIVE)
    assert "runs attach r" in text
    assert "runs stop r" in text


def test_long_traceback_keeps_both_ends() -> None:
    """The middle is left out, and how much of it is said."""
    lines = shortened("\n".join(f"line {number}" for number in range(100)))
    assert lines[0] == "line 0"
    assert lines[-1] == "line 99"
    assert len(lines) == TRACEBACK_LINES + 1


def across(leader: list[Event], follower: list[Event]) -> str:
    nodes = {"n1": [agent_started(), *leader], "n2": [agent_started(), *follower]}
    return "\n".join(summary_lines(fold("r", controller_journal(), nodes, {}, DEAD, 1e6)))


def test_in_a_run_of_several_nodes_the_first_failing_rank_is_named_with_its_own() -> None:
    """As its node's journal has it, which may not be here; of one node nothing is said."""
    why = "rank 1 failed first: RuntimeError: x (exit code 1)"
    first = failure(1, message="RuntimeError: x", traceback="")
    leader = [started(), ended(1, "failed", first), finished("FAILED", why=why)]
    exited = event("rank_exited", attempt=1, rank=1, code=1, signal=None)
    text = across(leader, [exited])
    assert "  rank 1 on node n2 failed first: RuntimeError: x (exit code 1)\n" in text
    assert text.count("rank 1 on") + text.count("rank 1 failed") == 1
    assert "  rank 1 failed first" in across(leader, [])
    nodes = {"n1": [agent_started(), *leader], "n2": [agent_started()]}
    beats = {"n1": {"attempt": 1, "ranks": {"0": {}}}, "n2": {"attempt": 1, "ranks": {"1": {}}}}
    assert fold("r", controller_journal(), nodes, beats, DEAD, 1e6).why.startswith("rank 1 on node n2 failed")
    assert "on node" not in summary([*running_run(), exited, *leader[1:]])
    unsaid = [started(), ended(1, "failed", first), finished("FAILED", why="")]
    assert "rank 1 on node n2 failed with exit code 1" in across(unsaid, [exited])


def test_a_lost_node_is_no_failure_of_torchrun() -> None:
    """It is said once, in the words of who lost it."""
    why = "node n2 has been silent for 120 s (launch.node_grace)"
    first = failure(None, code=None, message=why, traceback="")  # type: ignore[arg-type]  # no rank's
    text = across([started(), ended(1, "failed", first), finished("FAILED", why=why)], [])
    assert text.count(why) == 1
    assert "torchrun" not in text
    assert why in across([started(), ended(1, "failed", first), finished("FAILED", why="")], [])


def test_a_checkpoint_on_a_nodes_own_disk_is_named_with_it() -> None:
    """This machine's is not."""
    saved = event("checkpoint", step=3, path="/data/step_3")
    text = across([started(), saved, ended(1), finished()], [])
    assert "last checkpoint: step 3, /data/step_3 on node n1\n" in text
    assert "on node" not in summary([*running_run(), saved, ended(1), finished()])


def test_a_directory_made_later_does_not_make_the_run_younger() -> None:
    """A machine that attaches to a run makes one once it has long begun."""
    late = [event("created", 900.0, name="gpt")]
    assert fold("r", late, {"n1": [started(at=101.0)]}, {}, DEAD, 1e6).created == 101.0


def test_a_hang_is_said_once() -> None:
    """Where it is the reason of the state, no note says it again."""
    said = {"kind": "elsewhere", "examination": "1", "detail": "Rank 1 is in train.py:84."}
    hang = event("hang", 103.0, attempt=1, rank=1, still=34.0, limit=30.0, **said)
    assert summary([*running_run(), hang], ALIVE).count("Rank 1 is in train.py:84.") == 1
