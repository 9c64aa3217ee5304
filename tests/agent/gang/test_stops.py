"""How the gang stops a run, and how urgently."""

from __future__ import annotations

import dataclasses

import pytest

from support.agents.gang_story import GRACEFUL, NOW, POLICY, RECIPE, Story, failure, finish, kinds
from torchdeck.agent.gang import commands, events
from torchdeck.agent.gang.attempt_state import KILL_LIMIT
from torchdeck.contract.run_states import StopCause, StopKind


def test_graceful_stop_of_a_recipe_escalates_by_its_graces() -> None:
    """Stop file, stop_grace, SIGTERM, kill_grace, SIGKILL, then a verdict even if nothing dies."""
    story = Story(RECIPE).train()
    assert story.tell(GRACEFUL) == [
        commands.AnnounceStopping(StopKind.GRACEFUL, StopCause.USER, "r1", ""),
        commands.TouchStop(1),
    ]
    assert story.tell(events.Tick(), after=99.9) == []
    assert story.tell(events.Tick(), after=0.1) == [commands.Terminate("a")]
    assert story.tell(events.Tick(), after=9.9) == []
    assert story.tell(events.Tick(), after=0.2) == [commands.Kill("a")]
    assert kinds(story.tell(events.Tick(), after=KILL_LIMIT)) == ["EndAttempt", "Finish"]


def test_a_recipe_that_has_not_trained_is_ended_at_once() -> None:
    """There is nothing to save before the first step: SIGTERM."""
    story = Story(RECIPE).launch()
    assert story.tell(GRACEFUL)[1:] == [commands.Terminate("a")]
    assert story.gang.deadline == 10.0


def test_a_running_script_has_the_long_grace_after_sigterm() -> None:
    """A script may save on SIGTERM; a second, urgent request shortens that to kill_grace."""
    story = Story().train()
    assert story.tell(GRACEFUL)[1:] == [commands.Terminate("a")]
    assert story.gang.deadline == 100.0
    assert story.tell(NOW, after=5.0) == [commands.AnnounceStopping(StopKind.NOW, StopCause.USER, "r2", "")]
    assert story.gang.deadline == 15.0


def test_a_third_request_kills() -> None:
    """Asked again for `now` while SIGTERM is ignored: SIGKILL."""
    story = Story(RECIPE).train()
    assert story.tell(GRACEFUL, NOW)[-1] == commands.Terminate("a")
    assert story.tell(NOW) == [commands.Kill("a")]
    assert story.tell(NOW) == []


def test_the_same_graceful_request_twice_is_one() -> None:
    """A graceful stop does not escalate by being repeated."""
    story = Story(RECIPE).train()
    story.tell(GRACEFUL)
    assert story.tell(GRACEFUL) == []


@pytest.mark.parametrize(
    "before",
    [
        [],
        [events.NodeReady("a")],
        [events.NodeReady("a"), events.LeasesHeld("a", ({"device": "g", "run_id": "r", "name": "n"},))],
    ],
)
def test_a_stop_before_the_launch_finishes(before: list[events.Event]) -> None:
    """Preparing, leasing or queued: CANCELLED at once, and a lease that comes late starts nothing."""
    story = Story(dataclasses.replace(POLICY, queue=True))
    story.tell(*before)
    assert finish(story.tell(GRACEFUL)).state == "CANCELLED"
    assert story.tell(events.LeasesGranted("a"), events.Tick(), after=10.0) == []


def test_a_stop_while_torchrun_comes_up_reaches_it() -> None:
    """The signal is sent as soon as there is someone to send it to."""
    story = Story()
    story.tell(events.NodeReady("a"), events.LeasesGranted("a"))
    assert kinds(story.tell(GRACEFUL)) == ["AnnounceStopping"]
    assert story.tell(events.AttemptLaunched("a", 1)) == [commands.Terminate("a")]


def test_a_stop_between_attempts_finishes() -> None:
    """While a restart is due, the stop request comes first."""
    story = Story(dataclasses.replace(POLICY, max_restarts=3)).train()
    story.exit(1)
    assert kinds(story.clean(failure=failure())) == ["EndAttempt", "AnnounceRestart"]
    assert finish(story.tell(GRACEFUL)).state == "CANCELLED"
    assert story.tell(events.Tick(), after=100.0) == []


def test_a_recipe_that_finished_before_the_stop_reached_it_succeeded() -> None:
    """All ranks say they did all steps: SUCCEEDED; exit 0 without that is a stop obeyed."""
    for completed, state in ((True, "SUCCEEDED"), (False, "CANCELLED")):
        story = Story(RECIPE).train()
        story.tell(GRACEFUL)
        story.exit(0, completed=completed)
        assert finish(story.clean()).state == state


@pytest.mark.parametrize(
    ("why", "state"),
    [(StopCause.USER, "CANCELLED"), (StopCause.LIMIT, "CANCELLED"), (StopCause.DISK, "FAILED")],
)
def test_why_a_run_was_stopped_decides_its_state(why: StopCause, state: str) -> None:
    """Wished ends are CANCELLED, forced ones FAILED, and the sentence says which."""
    story = Story(RECIPE).train()
    story.tell(events.StopRequested(StopKind.GRACEFUL, why, None, "the detail"))
    story.exit(0)
    finished = finish(story.clean())
    assert finished.state == state
    assert "the detail" in finished.why


def test_a_script_whose_trainer_saves_is_asked_by_the_stop_file_first() -> None:
    """Then SIGTERM and SIGKILL, each after a grace, as for a recipe."""
    story = Story().train()
    story.tell(events.SavesOnStop(1, saves=True))
    assert story.tell(GRACEFUL)[1:] == [commands.TouchStop(1)]
    assert story.tell(events.Tick(), after=99.9) == []
    assert story.tell(events.Tick(), after=0.1) == [commands.Terminate("a")]
    assert story.tell(events.Tick(), after=10.1) == [commands.Kill("a")]


def test_a_script_whose_trainer_does_not_save_now_gets_sigterm() -> None:
    """Its training has ended, or its callbacks were switched off."""
    story = Story().train()
    story.tell(events.SavesOnStop(1, saves=True), events.SavesOnStop(1, saves=False))
    assert story.tell(GRACEFUL)[1:] == [commands.Terminate("a")]


@pytest.mark.parametrize(("completed", "state"), [(False, "CANCELLED"), (True, "SUCCEEDED")])
def test_a_script_that_saved_and_exits_with_0_was_stopped_unless_it_was_done(
    state: str, *, completed: bool
) -> None:
    story = Story().train()
    story.tell(events.SavesOnStop(1, saves=True))
    story.tell(GRACEFUL)
    story.exit(0, completed=completed)
    assert finish(story.clean()).state == state
