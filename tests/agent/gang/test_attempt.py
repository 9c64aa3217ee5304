"""How the gang takes a run through an attempt, by scripted histories and a clock that only the test moves."""

from __future__ import annotations

import dataclasses

from support.agents.gang_story import POLICY, RECIPE, Story, finish, kinds
from torchdeck.agent.gang import commands, events
from torchdeck.agent.gang.gang import QUEUE_RETRY, SWEEP_SLACK
from torchdeck.contract.run_states import FinalState, Outcome, StartReason


def test_a_good_run_goes_through_its_states() -> None:
    """Ready, leased, launched, running, exited, swept, judged, finished."""
    story = Story()
    assert story.tell(events.NodeReady("a")) == [commands.AcquireLeases("a")]
    assert story.tell(events.LeasesGranted("a")) == [commands.LaunchAttempt(1, StartReason.FIRST)]
    assert story.tell(events.AttemptLaunched("a", 1)) == []
    assert story.gang.phase == "starting"
    assert story.tell(events.RanksUp("a", 1)) == [commands.AnnounceRunning(1)]
    assert story.exit(0) == [commands.CleanUp("a", 1, 10.0)]
    assert story.clean() == [
        commands.EndAttempt(1, Outcome.SUCCEEDED, None, 0),
        commands.Finish(FinalState.SUCCEEDED, "all ranks finished"),
    ]


def test_a_recipe_runs_only_once_it_trains() -> None:
    """Ranks that are up and load are not yet RUNNING."""
    story = Story(RECIPE).launch()
    assert story.tell(events.RanksUp("a", 1)) == []
    assert story.tell(events.RankProgress(1, 0, 1)) == [commands.AnnounceRunning(1)]
    assert story.tell(events.RankProgress(1, 1, 1)) == []


def test_devices_of_another_run_are_refused_or_waited_for() -> None:
    """Without queue: FAILED with whose it is; with: asked again each second, journaled when it changes."""
    held = events.LeasesHeld("a", ({"device": "g", "run_id": "other", "name": "n"},))
    story = Story()
    story.tell(events.NodeReady("a"))
    refused = story.tell(held)
    assert kinds(refused) == ["AnnounceRefused", "Finish"]
    assert "other" in finish(refused).why
    story = Story(dataclasses.replace(POLICY, queue=True))
    story.tell(events.NodeReady("a"))
    assert story.tell(held) == [commands.AnnounceQueued(held.held_by)]
    assert story.tell(events.Tick(), after=QUEUE_RETRY) == [commands.AcquireLeases("a")]
    assert story.tell(held) == []
    story.tell(events.Tick(), after=QUEUE_RETRY)
    assert story.tell(events.LeasesGranted("a")) == [commands.LaunchAttempt(1, StartReason.FIRST)]


def test_leases_are_all_or_nothing_over_nodes() -> None:
    """A node whose devices another run holds makes the others give theirs back."""
    story = Story(dataclasses.replace(POLICY, queue=True), ("a", "b"))
    story.tell(events.NodeReady("a"), events.NodeReady("b"), events.LeasesGranted("a"))
    orders = story.tell(events.LeasesHeld("b", ({"device": "g", "run_id": "r", "name": "n"},)))
    assert orders[0] == commands.ReleaseLeases("a")
    story.tell(events.Tick(), after=QUEUE_RETRY)
    assert story.tell(events.LeasesGranted("b")) == []
    assert story.tell(events.LeasesGranted("a")) == [commands.LaunchAttempt(1, StartReason.FIRST)]


def test_a_sweep_without_an_answer_ends() -> None:
    """A node that never says it is clean does not hold up the verdict."""
    story = Story().train()
    story.exit(1)
    assert kinds(story.tell(events.Tick(), after=POLICY.kill_grace + SWEEP_SLACK)) == ["EndAttempt", "Finish"]


def test_a_lost_holder_moves_the_leases() -> None:
    """Nothing else changes."""
    assert Story().train().tell(events.HolderLost("a", 1)) == [commands.RetakeLeases("a")]


def test_events_of_an_earlier_attempt_do_nothing() -> None:
    """A late exit of attempt 1 is not one of attempt 2."""
    story = Story(dataclasses.replace(POLICY, max_restarts=1)).train()
    story.exit(1)
    story.clean()
    story.tell(events.Tick(), after=2.0)
    assert story.tell(events.TorchrunExited("a", 1, 0, True), events.NodeClean("a", 1, 0, 0, None)) == []


def test_an_exit_told_twice_is_one() -> None:
    """The second one sweeps nothing and judges nothing."""
    story = Story().train()
    assert kinds(story.exit(1)) == ["CleanUp"]
    assert story.exit(0) == []
