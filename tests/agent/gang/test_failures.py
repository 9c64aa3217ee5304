"""What the gang does when a rank, a node or a port fails, and whom it names."""

from __future__ import annotations

import dataclasses

from support.gang_story import POLICY, RECIPE, Story, failure, finish, kinds
from torchdeck.agent import commands as do
from torchdeck.agent import events as on
from torchdeck.agent.gang import NODE_GRACE


def test_restarts_are_counted_and_delayed() -> None:
    """max_restarts new attempts, each after its delay, then FAILED naming the first failing rank."""
    story = Story(dataclasses.replace(POLICY, max_restarts=1)).train()
    story.exit(1)
    assert story.clean(failure=failure())[-1] == do.AnnounceRestart(1, 2.0, "restart")
    assert story.tell(on.Tick(), after=1.9) == []
    assert story.tell(on.Tick(), after=0.2) == [do.LaunchAttempt(2, "restart")]
    story.up().exit(1)
    assert "rank 1 failed first: ValueError: no" in finish(story.clean(failure=failure())).why


def test_lost_ports_are_not_counted_as_restarts() -> None:
    """Three more tries for the port, then FAILED."""
    story = Story().launch()
    reasons = []
    for _ in range(10):
        story.tell(on.PortLost("a", story.gang.number))
        story.exit(1)
        last = story.clean()[-1]
        if isinstance(last, do.Finish):
            break
        reasons += [
            command.reason
            for command in story.tell(on.Tick(), after=2.0)
            if isinstance(command, do.LaunchAttempt)
        ]
        story.up()
    assert reasons == ["port", "port", "port"]
    assert story.gang.phase == "finished"


def test_a_hang_does_what_the_policy_says() -> None:
    """watch: nothing; stop: SIGTERM and FAILED; restart: SIGTERM and a counted attempt."""
    hang = on.HangFlagged(1, 0, "rank 0 is stopped")
    assert Story(RECIPE).train().tell(hang) == []
    story = Story(dataclasses.replace(RECIPE, on_hang="stop")).train()
    assert kinds(story.tell(hang)) == ["AnnounceStopping", "Terminate"]
    story.exit(1)
    assert finish(story.clean()).state == "FAILED"
    story = Story(dataclasses.replace(RECIPE, on_hang="restart", max_restarts=1)).train()
    assert story.tell(hang) == [do.Terminate("a")]
    story.exit(1)
    assert kinds(story.clean()) == ["EndAttempt", "AnnounceRestart"]
    story.tell(on.Tick(), after=2.0)
    story.up().tell(on.HangFlagged(2, 0, "rank 0 is stopped"))
    story.exit(1)
    assert finish(story.clean()).why == "rank 0 is stopped"


def test_a_failure_on_one_node_ends_all() -> None:
    """The other node's torchrun gets SIGTERM, then SIGKILL; the earliest failure is the run's."""
    story = Story(POLICY, ("a", "b")).train()
    assert story.exit(1, "a") == [do.Sweep("a", 1, 10.0), do.Terminate("b")]
    assert story.clean("a", failure(3, 9.0)) == []
    assert story.tell(on.Tick(), after=10.0) == [do.Kill("b")]
    story.exit(137, "b")
    assert "rank 2 failed first" in finish(story.clean("b", failure(2, 8.0))).why


def test_nodes_that_end_well_apart_are_waited_for() -> None:
    """Exit 0 on one node ends nothing on the other, for a while; then it does."""
    story = Story(POLICY, ("a", "b")).train()
    assert story.exit(0, "a") == [do.Sweep("a", 1, 10.0)]
    assert story.tell(on.Tick(), after=NODE_GRACE) == [do.Terminate("b")]


def test_a_lost_node_ends_the_attempt_and_is_not_waited_for() -> None:
    """As if its torchrun were gone and nothing left there; the others are ended, and the run says why."""
    story = Story(nodes=("a", "b")).train()
    orders = story.tell(on.NodeLost("b", "node b has been silent for 120 s"))
    assert orders == [do.Sweep("b", 1, 10.0), do.Terminate("a")]
    assert story.tell(on.NodeLost("b", "again")) == []
    story.exit(143, "a")
    assert finish(story.clean("a")) == do.Finish("FAILED", "node b has been silent for 120 s")


def test_a_node_that_never_comes_fails_the_run() -> None:
    """There is nothing to start without it."""
    story = Story(nodes=("a", "b"))
    story.tell(on.NodeReady("a"))
    assert story.tell(on.NodeLost("b", "silent")) == [do.Finish("FAILED", "silent")]


def test_a_rank_that_failed_explains_more_than_a_lost_node() -> None:
    """The node it was on may be lost for it."""
    story = Story(nodes=("a", "b")).train()
    story.tell(on.NodeLost("b", "silent"))
    story.exit(1, "a")
    assert "rank 1 failed first" in finish(story.clean("a", failure())).why


def test_the_first_failure_of_all_nodes_is_told_by_corrected_times() -> None:
    """Within the clocks' error it is a tie, and said to be one; a killed rank comes before lost peers."""
    late = on.Failure(0, 1, None, "late", None, 5.5, 0.0)
    early = on.Failure(2, 1, None, "early", None, 5.0, 0.01)
    story = Story(nodes=("a", "b")).train()
    story.exit(1, "a")
    story.exit(1, "b")
    story.clean("a", late)
    assert finish(story.clean("b", early)).why == "rank 2 failed first: early (exit code 1)"

    story = Story(nodes=("a", "b")).train()
    story.exit(1, "a")
    story.exit(1, "b")
    story.clean("a", late)
    why = finish(story.clean("b", early._replace(time=5.495))).why
    assert why == (
        "rank 2 failed at the same time as rank 0, as far as the clocks of their nodes tell: "
        "early (exit code 1)"
    )

    story = Story(nodes=("a", "b")).train()
    story.exit(1, "a")
    story.exit(1, "b")
    story.clean("a", on.Failure(0, 1, None, "connection lost", None, 5.0))
    killed = on.Failure(2, 137, 9, "ended by SIGKILL", None, 5.4, 0.01)
    assert finish(story.clean("b", killed)).why == "rank 2 failed first: ended by SIGKILL"
