"""A gang that another agent continues with, from what the journal says."""

from __future__ import annotations

import dataclasses

from support.agents.gang_story import GRACEFUL, POLICY, RECIPE, Story, finish, kinds
from torchdeck.agent.gang import commands, events
from torchdeck.agent.gang.recovered_state import RecoveredState
from torchdeck.contract.run_states import Outcome, StartReason, StopCause, StopKind


def test_a_gang_taken_over_in_an_attempt_goes_on() -> None:
    """Adopted while running: a stop still goes the cooperative way; adopted while stopping: it is
    stopped again."""
    story = Story(RECIPE)
    assert story.gang.resume(RecoveredState(attempt=4, open=True, running=True), 0.0) == []
    assert story.tell(GRACEFUL)[1:] == [commands.TouchStop(4)]
    story = Story(RECIPE)
    recovered = RecoveredState(
        attempt=4, open=True, running=True, stop=(StopKind.GRACEFUL, StopCause.USER, "")
    )
    assert story.gang.resume(recovered, 0.0) == [commands.TouchStop(4)]
    story = Story(RECIPE)
    assert story.gang.resume(recovered._replace(signalled=True), 0.0) == [commands.Terminate("a")]


def test_an_adopted_script_keeps_its_long_grace() -> None:
    """It was running before the take-over, so it may save on SIGTERM."""
    story = Story()
    story.gang.resume(RecoveredState(attempt=1, open=True, running=True), 0.0)
    assert story.tell(GRACEFUL)[1:] == [commands.Terminate("a")]
    assert story.gang.deadline == POLICY.stop_grace


def test_a_gang_taken_over_between_attempts_goes_on() -> None:
    """A restart that was due is made; with a stop journaled it is not; an unjudged end is judged."""
    due = RecoveredState(attempt=1, outcome=Outcome.FAILED, restart_reason=StartReason.RESTART, restarts=1)
    story = Story(dataclasses.replace(POLICY, max_restarts=1))
    assert story.gang.resume(due, 0.0) == []
    assert story.tell(events.Tick(), after=2.0) == [commands.LaunchAttempt(2, StartReason.RESTART)]
    story = Story(dataclasses.replace(POLICY, max_restarts=1))
    assert (
        finish(story.gang.resume(due._replace(stop=(StopKind.NOW, StopCause.USER, "")), 0.0)).state
        == "CANCELLED"
    )
    story = Story(dataclasses.replace(POLICY, max_restarts=1))
    assert kinds(story.gang.resume(RecoveredState(attempt=1, outcome=Outcome.FAILED), 0.0)) == [
        "AnnounceRestart"
    ]
    story = Story()
    assert finish(story.gang.resume(RecoveredState(attempt=1, outcome=Outcome.FAILED), 0.0)).state == "FAILED"


def test_a_gang_taken_over_remembers_that_a_script_saves_on_stop() -> None:
    """Asked later, or asked already: it is asked by the stop file, and a clean end is a stop."""
    story = Story()
    saves = RecoveredState(attempt=1, open=True, running=True, saves_on_stop=True)
    story.gang.resume(saves, 0.0)
    assert story.tell(GRACEFUL)[1:] == [commands.TouchStop(1)]
    story = Story()
    asked = RecoveredState(
        attempt=1,
        open=True,
        running=True,
        asked_to_save=True,
        stop=(StopKind.GRACEFUL, StopCause.USER, ""),
    )
    assert story.gang.resume(asked, 0.0) == [commands.TouchStop(1)]
    story.exit(0)
    assert finish(story.clean()).state == "CANCELLED"


def test_a_crash_loop_is_noticed_by_a_gang_taken_over() -> None:
    """Before the attempt ends, and between its end and the verdict; a long attempt without steps is none."""
    known = RecoveredState(attempt=3, open=True, running=True, fruitless=2, reached=8, traceback="T")
    policy = dataclasses.replace(POLICY, max_restarts=100)
    failed = events.Failure(0, 1, None, "ValueError: no", "T", 5.0)
    story = Story(policy)
    story.gang.resume(known, 0.0)
    story.exit(1)
    why = finish(story.clean(failure=failed)).why
    assert "3 attempts in a row" in why
    assert "the same traceback" in why
    judged = known._replace(open=False, outcome=Outcome.FAILED, failure=failed, step=8)
    assert finish(Story(policy).gang.resume(judged, 0.0)).why == why
    assert kinds(Story(policy).gang.resume(judged._replace(step=9), 0.0)) == ["AnnounceRestart"]
    silent = judged._replace(reached=0, step=0)
    assert kinds(Story(policy).gang.resume(silent._replace(seconds=700.0), 0.0)) == ["AnnounceRestart"]
    assert "3 attempts in a row" in finish(Story(policy).gang.resume(silent, 0.0)).why
