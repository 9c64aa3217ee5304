"""A gang that may continue without who fails for good, by scripted histories."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from torchdeck.agent.gang import commands, events
from torchdeck.agent.gang.gang import Gang
from torchdeck.agent.gang.recovered_state import RecoveredState, replay
from torchdeck.agent.gang.recovery import PORT_RETRIES
from torchdeck.contract.journal import Event
from torchdeck.contract.plan.elastic import Elastic, Place
from torchdeck.contract.plan.policy import Policy
from torchdeck.contract.run_states import FinalState, StartReason, StopCause, StopKind

RECIPE = Policy(cooperative_stop=True, max_restarts=2, restart_delay=2.0, kill_grace=10.0)
ONE_NODE = Elastic([("a", 3)], [(1, 2)])
TWICE = "it failed twice with no new checkpoint in between"


def killed(rank: int) -> events.Failure:
    return events.Failure(rank, 137, 9, "ended by SIGKILL", None, 5.0)


def reason_and_suspect(command: commands.Command) -> tuple[str, Place | None]:
    assert isinstance(command, commands.AnnounceRestart)
    return command.reason, command.suspect


class Story:
    """A gang and its clock; `fail` is a whole attempt that ends in the failure of a rank."""

    def __init__(self, policy: Policy = RECIPE, elastic: Elastic = ONE_NODE) -> None:
        self.gang = Gang(elastic.full.nodes, policy, elastic)
        self.now = 0.0
        self.journal: list[tuple[str, dict[str, Any]]] = []
        for node in elastic.full.nodes:
            self.tell(events.NodeReady(node))
        for node in elastic.full.nodes:
            self.tell(events.LeasesGranted(node))

    def tell(self, event: events.Event) -> list[commands.Command]:
        orders = self.gang.handle(event, self.now)
        for command in orders:
            self._write(command)
        if isinstance(event, events.CheckpointSaved):
            self.journal.append(("checkpoint", {"path": "/c", "step": event.step}))
        return orders

    def _write(self, command: commands.Command) -> None:
        """As the agent journals it."""
        if isinstance(command, commands.LaunchAttempt):
            self.journal.append(("attempt_started", {"attempt": command.attempt}))
        elif isinstance(command, commands.AnnounceRunning):
            self.journal.append(("running", {}))
        elif isinstance(command, commands.EndAttempt):
            failure = command.failure and command.failure._asdict()
            self.journal.append(("attempt_ended", {"outcome": command.outcome, "first_failure": failure}))
        elif isinstance(command, commands.AnnounceRestart):
            suspect = command.suspect and command.suspect._asdict()
            self.journal.append(("restarting", {**command._asdict(), "suspect": suspect}))

    def begin(self, *nodes: str) -> None:
        for node in nodes or ("a",):
            self.tell(events.AttemptLaunched(node, self.gang.number))
        self.tell(events.RankProgress(self.gang.number, 0, 1))

    def end(self, failure: events.Failure | None, *nodes: str) -> commands.Command:
        """torchrun fails on all nodes, the failure is the first's; the last command."""
        orders: list[commands.Command] = []
        nodes = nodes or ("a",)
        for node in nodes:
            self.tell(events.TorchrunExited(node, self.gang.number, 1, completed=False))
        for node in nodes:
            first = failure if node == nodes[0] else None
            orders += self.tell(events.NodeClean(node, self.gang.number, 0, 0, first))
        return orders[-1]

    def fail(self, rank: int, *nodes: str) -> commands.Command:
        self.begin(*nodes)
        return self.end(killed(rank), *nodes)

    def again(self) -> commands.LaunchAttempt:
        """The delay is over."""
        self.now += 2.0
        (launch,) = self.tell(events.Tick())
        assert isinstance(launch, commands.LaunchAttempt)
        return launch

    def recovered(self) -> RecoveredState:
        """What another agent would know."""
        return replay(
            [Event(name, 1.0 + at, 0.0, fields) for at, (name, fields) in enumerate(self.journal)], 0
        )


def test_a_rank_that_fails_twice_without_progress_is_given_up() -> None:
    """First all start again; the second time the gang continues without it, and says so."""
    story = Story()
    assert story.fail(2) == commands.AnnounceRestart(1, 2.0, StartReason.RESTART, Place("a", 2))
    assert story.again() == commands.LaunchAttempt(2, StartReason.RESTART, ())
    assert story.fail(2) == commands.AnnounceRestart(2, 2.0, StartReason.SMALLER, Place("a", 2), TWICE, 2)
    assert story.again() == commands.LaunchAttempt(3, StartReason.SMALLER, (Place("a", 2),))


def test_a_checkpoint_in_between_is_progress() -> None:
    """The same rank fails again, but later in the training: a restart is worth it while there are some."""
    story = Story()
    story.fail(2)
    story.again()
    story.tell(events.CheckpointSaved(10))
    assert story.fail(2) == commands.AnnounceRestart(2, 2.0, StartReason.RESTART, Place("a", 2))
    story.again()
    story.tell(events.CheckpointSaved(20))
    last = story.fail(2)
    assert isinstance(last, commands.AnnounceRestart)
    assert last.reason == "smaller"
    assert "the 2 restarts at this size that launch.max_restarts allows are used up" in last.why


def test_a_checkpoint_of_an_earlier_step_is_no_progress() -> None:
    """The rank that fails again is given up, although the program wrote its early checkpoint again.

    An agent that took over would know so, too.
    """
    story = Story()
    story.begin()
    story.tell(events.CheckpointSaved(4))
    story.end(killed(2))
    story.again()
    story.tell(events.CheckpointSaved(4))
    assert story.recovered().suspect == Place("a", 2)
    assert not story.recovered().saved
    assert story.recovered().saved_step == 4
    assert reason_and_suspect(story.fail(2)) == ("smaller", Place("a", 2))


def test_another_rank_is_another_failure() -> None:
    """Two ranks that fail in turn are no proof against either, until the restarts are used up."""
    story = Story()
    assert story.fail(2) == commands.AnnounceRestart(1, 2.0, StartReason.RESTART, Place("a", 2))
    story.again()
    assert story.fail(1) == commands.AnnounceRestart(2, 2.0, StartReason.RESTART, Place("a", 1))
    story.again()
    assert reason_and_suspect(story.fail(2)) == ("smaller", Place("a", 2))


def test_every_size_has_restarts_of_its_own_and_the_minimum_ends() -> None:
    """After a rank was given up the count starts over; at the minimum the run fails as it always did."""
    story = Story(dataclasses.replace(RECIPE, max_restarts=1))
    reasons = []
    for _ in range(3):
        story.fail(1)
        reasons.append(story.again().reason)
    last = story.fail(1)
    assert reasons == ["restart", "smaller", "restart"]
    why = "rank 1 failed first: ended by SIGKILL; it already ran on the minimum number of ranks, 2"
    assert last == commands.Finish(FinalState.FAILED, why)


def test_ranks_are_places_of_the_full_plan() -> None:
    """Rank 1 of an attempt that does without local rank 1 is local rank 2."""
    story = Story(dataclasses.replace(RECIPE, max_restarts=0), Elastic([("a", 3)], [(1, 2), (1, 1)]))
    assert reason_and_suspect(story.fail(1)) == ("smaller", Place("a", 1))
    story.again()
    assert reason_and_suspect(story.fail(1)) == ("smaller", Place("a", 2))
    assert story.again().left_out == (Place("a", 1), Place("a", 2))


def test_a_device_that_is_gone_is_done_without_at_once() -> None:
    """It need not fail twice."""
    story = Story()
    story.fail(0)
    story.again()
    why = "GPU x is not there any more"
    story.tell(events.LaunchFailed("a", 2, why, Place("a", 1)))
    (*_, last) = story.tell(events.NodeClean("a", 2, 0, 0, None))
    assert last == commands.AnnounceRestart(2, 2.0, StartReason.SMALLER, Place("a", 1), why, 2)


def test_a_program_that_fails_before_it_trains_is_not_tried_on_fewer_ranks() -> None:
    """An exception in the first attempt's start is the program's own; a killed rank may be the machine's."""
    story = Story(dataclasses.replace(RECIPE, max_restarts=0))
    story.tell(events.AttemptLaunched("a", 1))
    wrong = events.Failure(1, 1, None, "ValueError: no", None, 5.0)
    assert isinstance(story.end(wrong), commands.Finish)
    story = Story(dataclasses.replace(RECIPE, max_restarts=0))
    story.tell(events.AttemptLaunched("a", 1))
    assert reason_and_suspect(story.end(killed(1))) == ("smaller", Place("a", 1))


def test_a_failure_that_the_trainer_explains_is_the_programs() -> None:
    """A rank whose loss is not a number is not given up for it; one that raised for another reason may be."""
    for traceback, reason in (("", "FAILED"), ("Traceback: CUDA error", "smaller")):
        story = Story(dataclasses.replace(RECIPE, max_restarts=0))
        story.begin()
        last = story.end(events.Failure(1, 1, None, "the loss is nan at step 7", traceback, 5.0))
        assert reason in last


def test_a_hang_counts_against_the_rank_that_hangs() -> None:
    """With on_hang = "restart", whatever signal ended whichever rank."""
    story = Story(dataclasses.replace(RECIPE, max_restarts=0, on_hang="restart"))
    story.begin()
    story.tell(events.HangFlagged(1, 2, "stands"))
    assert reason_and_suspect(story.end(killed(0))) == ("smaller", Place("a", 2))


EXCLUDES = dataclasses.replace(RECIPE, on_hang="exclude")


@pytest.mark.parametrize(
    ("elastic", "reason", "place"),
    [
        (ONE_NODE, "smaller", Place("a", 2)),
        (Elastic([("a", 2), ("b", 2)], [(1, 2)]), "smaller", Place("b", 0)),
        (Elastic([("a", 2), ("b", 2)], spares=[("c", 2)]), "replaced", Place("b", 0)),
    ],
    ids=["rank", "node", "spare node"],
)
def test_a_rank_that_hangs_is_left_out_at_once(elastic: Elastic, reason: str, place: Place) -> None:
    """With on_hang = "exclude", and restarts left; it counts as none of them."""
    story = Story(EXCLUDES, elastic)
    story.begin(*elastic.full.nodes)
    story.tell(events.HangFlagged(1, 2, "Rank 2 is in train.py:84"))
    restart = story.end(killed(0), *elastic.full.nodes)
    assert reason_and_suspect(restart) == (reason, place)
    assert isinstance(restart, commands.AnnounceRestart)
    assert "on_hang" in restart.why


def test_a_hang_without_a_rank_to_blame_is_a_restart() -> None:
    """All ranks wait in the same collective: none is left out for that."""
    story = Story(EXCLUDES)
    story.begin()
    story.tell(events.HangFlagged(1, None, "All ranks are in the same collective"))
    assert reason_and_suspect(story.end(None)) == ("restart", None)


def test_a_hang_at_the_fewest_ranks_is_a_restart_while_some_are_left() -> None:
    """Then the run is over, and says that it ran on the fewest ranks."""
    story = Story(dataclasses.replace(EXCLUDES, max_restarts=1))
    story.begin()
    story.tell(events.HangFlagged(1, 2, "stands"))
    assert reason_and_suspect(story.end(killed(2)))[0] == "smaller"
    for number, last in ((2, "restart"), (3, "FAILED")):
        story.again()
        story.begin()
        story.tell(events.HangFlagged(number, 0, "stands"))
        end = story.end(killed(0))
        assert last in end
        if isinstance(end, commands.Finish):
            assert "the minimum number of ranks, 2" in end.why


def test_a_stop_is_looked_at_before_the_smaller_gang_starts() -> None:
    """While the gang waits, and when it fails."""
    story = Story(dataclasses.replace(RECIPE, max_restarts=0))
    story.fail(2)
    (*_, last) = story.tell(events.StopRequested(StopKind.GRACEFUL, StopCause.USER, "r1"))
    assert isinstance(last, commands.Finish)
    assert last.state == "CANCELLED"


@pytest.mark.parametrize(
    ("sizes", "ranks", "nodes"),
    [([(2, 3), (1, 4), (1, 3)], 6, ("a", "b")), ([(1, 4)], 4, ("a",))],
    ids=["one rank of each node", "one node"],
)
def test_of_several_nodes_as_many_ranks_as_can_go_on(
    sizes: list[tuple[int, int]], ranks: int, nodes: tuple[str, ...]
) -> None:
    """Of 2 nodes of 4 ranks: 2 × 3 where ranks have a range, else 1 × 4; who is left is led alone."""
    elastic = Elastic([("a", 4), ("b", 4)], sizes)
    story = Story(dataclasses.replace(RECIPE, max_restarts=0), elastic)
    last = story.fail(5, "a", "b")
    assert isinstance(last, commands.AnnounceRestart)
    assert (last.reason, last.suspect, last.world_size) == ("smaller", Place("b", 1), ranks)
    story.again()
    story.begin(*nodes)
    for node in nodes:
        story.tell(events.TorchrunExited(node, 2, 0, completed=True))
    orders = [story.tell(events.NodeClean(node, 2, 0, 0, None)) for node in nodes][-1]
    assert orders[-1] == commands.Finish(FinalState.SUCCEEDED, f"all ranks finished, {ranks} in place of 8")


def test_a_node_whose_torchrun_cannot_start_is_given_up() -> None:
    """Once the run has trained; no rank is to blame then."""
    story = Story(dataclasses.replace(RECIPE, max_restarts=1), Elastic([("a", 2), ("b", 2)], [(1, 2)]))
    story.fail(0, "a", "b")
    story.again()
    story.tell(events.AttemptLaunched("a", 2))
    story.tell(events.LaunchFailed("b", 2, "no room"))
    last = story.end(None, "a", "b")
    assert isinstance(last, commands.AnnounceRestart)
    assert (last.reason, last.suspect, last.world_size) == ("smaller", Place("b", None), 2)
    assert story.again().left_out == (Place("b", None),)


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_an_agent_that_takes_over_knows_the_size(attempts: int) -> None:
    """Folded from the journal: who was given up, who is suspected, how many restarts are left."""
    story = Story()
    for _ in range(attempts):
        last = story.fail(2)
        if not isinstance(last, commands.AnnounceRestart):
            break
        story.again()
    other = Story()
    other.gang = Gang(("a",), RECIPE, ONE_NODE)
    other.gang.resume(story.recovered(), 0.0)
    assert other.gang.phase == "starting"
    for each in (story, other):
        each.now = 100.0
    assert other.fail(1) == story.fail(1)
    assert other.again() == story.again()


@pytest.mark.parametrize("signalled", [False, True])
def test_an_agent_that_takes_over_ends_an_attempt_that_hangs(*, signalled: bool) -> None:
    """The hang was journaled, and the agent died before or after its signal: the rank that hung is blamed."""
    policy = dataclasses.replace(RECIPE, max_restarts=0, on_hang="restart")
    story = Story(policy)
    story.begin()
    story.journal.append(("hang", {"attempt": 1, "rank": 2, "detail": "stands"}))
    story.journal += [("signalled", {"signal": "SIGTERM"}), ("hang_over", {"rank": 2})] if signalled else []
    story.gang = Gang(("a",), policy, ONE_NODE)
    recovered = story.recovered()
    assert story.gang.resume(recovered, 0.0) == [commands.Terminate("a")]
    assert reason_and_suspect(story.end(killed(0))) == ("smaller", Place("a", 2))


def test_nobody_is_to_blame_for_a_port_that_is_taken() -> None:
    """Again and again: its restarts are counted then, and no node is given up for it."""
    story = Story(dataclasses.replace(RECIPE, max_restarts=0), Elastic([("a", 2), ("b", 2)], [(1, 2)]))
    story.begin("a", "b")
    for _ in range(PORT_RETRIES):
        story.tell(events.PortLost("a", story.gang.number))
        assert reason_and_suspect(story.end(None, "a", "b")) == ("port", None)
        story.again()
    story.tell(events.PortLost("a", story.gang.number))
    assert isinstance(story.end(None, "a", "b"), commands.Finish)


def test_a_new_life_begins_with_all() -> None:
    """A run that is resumed by hand starts at full size again."""
    story = Story(dataclasses.replace(RECIPE, max_restarts=0))
    story.fail(2)
    story.journal.append(("finished", {"state": "CANCELLED"}))
    happened = [Event(name, 1.0, 0.0, fields) for name, fields in story.journal]
    assert replay(happened, 1).left_out == ()
    assert replay(happened, 1).attempt == 1
