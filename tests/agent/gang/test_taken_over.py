"""A gang that another agent continues with, from what the journal says."""

from __future__ import annotations

import dataclasses

from support.agents.gang_story import GRACEFUL, POLICY, RECIPE, Story, finish, kinds
from torchdeck.agent.gang import commands as do
from torchdeck.agent.gang import events as on
from torchdeck.agent.gang.recovered_state import RecoveredState
from torchdeck.contract.run_states import Outcome, StartReason, StopCause, StopKind


def test_a_gang_taken_over_in_an_attempt_goes_on() -> None:
    """Adopted while running: a stop still goes the cooperative way; adopted while stopping: it is
    stopped again."""
    story = Story(RECIPE)
    assert story.gang.resume(RecoveredState(attempt=4, open=True, running=True), 0.0) == []
    assert story.tell(GRACEFUL)[1:] == [do.TouchStop(4)]
    story = Story(RECIPE)
    recovered = RecoveredState(
        attempt=4, open=True, running=True, stop=(StopKind.GRACEFUL, StopCause.USER, "")
    )
    assert story.gang.resume(recovered, 0.0) == [do.TouchStop(4)]
    story = Story(RECIPE)
    assert story.gang.resume(recovered._replace(signalled=True), 0.0) == [do.Terminate("a")]


def test_an_adopted_script_keeps_its_long_grace() -> None:
    """It was running before the take-over, so it may save on SIGTERM."""
    story = Story()
    story.gang.resume(RecoveredState(attempt=1, open=True, running=True), 0.0)
    assert story.tell(GRACEFUL)[1:] == [do.Terminate("a")]
    assert story.gang.deadline == POLICY.stop_grace


def test_a_gang_taken_over_between_attempts_goes_on() -> None:
    """A restart that was due is made; with a stop journaled it is not; an unjudged end is judged."""
    due = RecoveredState(attempt=1, outcome=Outcome.FAILED, restart_reason=StartReason.RESTART, restarts=1)
    story = Story(dataclasses.replace(POLICY, max_restarts=1))
    assert story.gang.resume(due, 0.0) == []
    assert story.tell(on.Tick(), after=2.0) == [do.LaunchAttempt(2, StartReason.RESTART)]
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
