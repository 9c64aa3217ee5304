"""Gangs with spare nodes, and nodes that are lost before the first attempt, by scripted histories."""

from __future__ import annotations

from support.agents.gang_story import RECIPE
from torchdeck.agent.gang import commands, events
from torchdeck.agent.gang.gang import Gang
from torchdeck.agent.gang.recovered_state import replay
from torchdeck.agent.gang.verdict import not_answering
from torchdeck.contract.journal import Event
from torchdeck.contract.plan.elastic import Elastic, Place
from torchdeck.contract.run_states import FinalState, StartReason

SPARE = Elastic([("a", 1), ("b", 1)], (), [("s", 1), ("t", 1)])
GONE = not_answering("b", 5.0, [1])
RANGE = Elastic([("a", 1), ("b", 1), ("c", 1)], [(2, 1)])


def ready(elastic: Elastic, *nodes: str) -> Gang:
    """A gang of which `nodes` have said that they are there."""
    gang = Gang(elastic.full.nodes, RECIPE, elastic)
    for node in nodes:
        gang.handle(events.NodeReady(node), 0.0)
    return gang


def trains(elastic: Elastic, *nodes: str) -> Gang:
    """The same while its first attempt trains."""
    gang = ready(elastic, *nodes)
    for node in elastic.full.nodes:
        gang.handle(events.LeasesGranted(node), 0.0)
    for node in elastic.full.nodes:
        gang.handle(events.AttemptLaunched(node, 1), 0.0)
    gang.handle(events.RankProgress(1, 0, 1), 0.0)
    assert gang.phase == "running"
    return gang


def loses(gang: Gang, node: str, *others: str) -> commands.Command:
    """The last command after a node is lost in an attempt, which then ends on the others."""
    gang.handle(events.NodeLost(node, 5.0), 1.0)
    orders: list[commands.Command] = []
    for other in others:
        gang.handle(events.TorchrunExited(other, gang.number, 1, completed=False), 1.0)
        orders += gang.handle(events.NodeClean(other, gang.number, 0, 0, None), 1.0)
    return orders[-1]


def test_a_spare_takes_the_place_of_a_lost_node() -> None:
    """At once, with as many ranks; it is named with who it replaces."""
    gang = trains(SPARE, "a", "b", "s", "t")
    told = loses(gang, "b", "a")
    assert told == commands.AnnounceRestart(1, 2.0, StartReason.REPLACED, Place("b", None), GONE, None, "s")
    assert gang.handle(events.Tick(), 10.0) == [
        commands.LaunchAttempt(2, StartReason.REPLACED, (Place("b", None),))
    ]
    (event,) = [Event("restarting", 1.0, 0.0, {**told._asdict(), "suspect": Place("b", None)._asdict()})]
    assert replay([event], 0).left_out == (Place("b", None),)


def test_a_spare_that_does_not_answer_is_passed_over() -> None:
    """It is given up with the lost node; one that has come back meanwhile is as good as any."""
    gang = trains(SPARE, "a", "b", "s", "t")
    gang.handle(events.NodeLost("s", 5.0), 1.0)
    told = loses(gang, "b", "a")
    assert isinstance(told, commands.AnnounceRestart)
    assert (told.reason, told.instead, told.skipped) == ("replaced", "t", ("s",))
    left_out = (Place("b", None), Place("s", None))
    assert gang.handle(events.Tick(), 10.0) == [commands.LaunchAttempt(2, StartReason.REPLACED, left_out)]
    event = Event("restarting", 1.0, 0.0, {**told._asdict(), "suspect": Place("b", None)._asdict()})
    assert replay([event], 0).left_out == left_out
    gang = trains(SPARE, "a", "b", "s", "t")
    gang.handle(events.NodeLost("s", 5.0), 1.0)
    gang.handle(events.NodeReady("s"), 1.0)
    told = loses(gang, "b", "a")
    assert isinstance(told, commands.AnnounceRestart)
    assert (told.instead, told.skipped) == ("s", ())


def test_without_a_spare_left_the_run_ends() -> None:
    """As without spares; that there is none is part of the reason."""
    gang = trains(SPARE, "a", "b")
    gang.handle(events.NodeLost("s", 5.0), 1.0)
    gang.handle(events.NodeLost("t", 5.0), 1.0)
    assert loses(gang, "b", "a") == commands.Finish(FinalState.FAILED, f"{GONE}; no spare node is left")


def test_a_node_that_is_lost_before_the_first_attempt_is_left_out() -> None:
    """While nodes are waited for, and while devices are; the others begin, or a spare with them."""
    gang = ready(RANGE, "a", "b")
    told = commands.AnnounceLeftOut(StartReason.SMALLER, Place("c", None), not_answering("c", 5.0), 2, "", ())
    leases: list[commands.Command] = [commands.AcquireLeases("a"), commands.AcquireLeases("b")]
    assert gang.handle(events.NodeLost("c", 5.0), 1.0) == [told, *leases]
    gang.handle(events.LeasesGranted("a"), 1.0)
    assert gang.handle(events.LeasesGranted("b"), 1.0) == [
        commands.LaunchAttempt(1, StartReason.FIRST, (Place("c", None),))
    ]
    event = Event("left_out", 1.0, 0.0, {**told._asdict(), "suspect": Place("c", None)._asdict()})
    assert replay([event], 0).left_out == (Place("c", None),)
    gang = ready(SPARE, "a", "b")
    gang.handle(events.LeasesGranted("a"), 1.0)
    (said,) = gang.handle(events.NodeLost("b", 5.0), 1.0)
    assert said == commands.AnnounceLeftOut(
        StartReason.REPLACED, Place("b", None), not_answering("b", 5.0), None, "s", ()
    )
    assert gang.handle(events.NodeReady("s"), 2.0) == [
        commands.AcquireLeases("a"),
        commands.AcquireLeases("s"),
    ]


def test_an_agent_that_takes_over_before_the_first_attempt_waits_for_no_lost_node() -> None:
    """What an earlier one left out stays out."""
    lost = {"reason": "smaller", "suspect": Place("c", None)._asdict(), "skipped": []}
    gang = Gang(RANGE.full.nodes, RECIPE, RANGE)
    assert gang.resume(replay([Event("left_out", 1.0, 0.0, lost)], 0), 0.0) == []
    gang.handle(events.NodeReady("a"), 1.0)
    assert gang.handle(events.NodeReady("b"), 1.0) == [
        commands.AcquireLeases("a"),
        commands.AcquireLeases("b"),
    ]
    gang.handle(events.LeasesGranted("a"), 1.0)
    assert gang.handle(events.LeasesGranted("b"), 1.0) == [
        commands.LaunchAttempt(1, StartReason.FIRST, (Place("c", None),))
    ]


def test_below_the_range_nothing_begins() -> None:
    """The run ends with the reason of the last node that was lost."""
    gang = ready(RANGE, "a")
    gang.handle(events.NodeLost("c", 5.0), 1.0)
    assert gang.handle(events.NodeLost("b", 5.0), 1.0) == [
        commands.Finish(FinalState.FAILED, not_answering("b", 5.0))
    ]
