"""What holds for the gang whatever happens, and in whatever order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from support.doctor.evidence import elsewhere
from torchdeck.agent.gang import commands, events
from torchdeck.agent.gang.gang import Gang
from torchdeck.agent.gang.recovery import NEVER_RAN_RETRIES, PORT_RETRIES
from torchdeck.contract.plan.elastic import Elastic, Place, Roster
from torchdeck.contract.plan.policy import Policy
from torchdeck.contract.run_states import StopCause, StopKind

POLICIES = st.builds(
    Policy,
    max_restarts=st.integers(0, 3),
    restart_delay=st.sampled_from([0.0, 1.0]),
    on_hang=st.sampled_from(["watch", "stop", "restart", "exclude"]),
    cooperative_stop=st.booleans(),
    stop_grace=st.just(20.0),
    kill_grace=st.just(5.0),
    queue=st.booleans(),
)
HAPPENINGS = st.one_of(
    st.tuples(st.just("ready"), st.integers(0, 4)),
    st.tuples(st.just("leases"), st.integers(0, 4), st.booleans()),
    st.tuples(st.just("launched"), st.integers(0, 2)),
    st.tuples(st.just("launch_failed"), st.integers(0, 2)),
    st.tuples(st.just("up"), st.integers(0, 2)),
    st.tuples(st.just("progress"), st.integers(0, 2)),
    st.tuples(st.just("saves"), st.booleans()),
    st.tuples(st.just("exit"), st.integers(0, 2), st.sampled_from([0, 1, 137, None]), st.booleans()),
    st.tuples(st.just("port"), st.integers(0, 2)),
    st.tuples(st.just("clean"), st.integers(0, 2)),
    st.tuples(st.just("killed"), st.integers(0, 2), st.integers(0, 5)),
    st.tuples(st.just("gone"), st.integers(0, 2), st.integers(0, 2)),
    st.tuples(st.just("saved")),
    st.tuples(st.just("holder"), st.integers(0, 2)),
    st.tuples(st.just("stop"), st.sampled_from(StopKind), st.sampled_from(StopCause)),
    st.tuples(st.just("hang"), st.integers(0, 2)),
    st.tuples(st.just("stacks")),
    st.tuples(st.just("profile")),
    st.tuples(st.just("late"), st.integers(0, 2), st.integers(0, 1)),
    st.tuples(st.just("examined"), st.integers(0, 2), st.integers(1, 2)),
    st.tuples(st.sampled_from(["silent", "back", "lost"]), st.integers(0, 4)),
    st.tuples(st.just("again"), st.integers(0, 5)),
    st.tuples(st.just("time"), st.sampled_from([0.1, 1.0, 6.0, 40.0])),
)


NPROC = 3
"""Ranks on each node of a gang that may shrink."""
SPARES = st.integers(0, 2)
LEAST = st.none() | st.tuples(st.integers(1, 3), st.integers(1, NPROC))


def _sizes(least: tuple[int, int], nodes: int) -> Iterator[tuple[int, int]]:
    """Every size from `least` (nodes, ranks on each) to the full one."""
    for count in range(min(least[0], nodes), nodes + 1):
        for nproc in range(least[1], NPROC + 1):
            yield count, nproc


class World:
    """A gang, everything it ordered, and the checks that hold after every order."""

    def __init__(self, policy: Policy, nodes: int, least: tuple[int, int] | None, spares: int) -> None:
        names = [f"n{number}" for number in range(nodes)]
        self.nodes = [*names, *(f"s{number}" for number in range(spares))]
        sizes = [(1, 1)] if least is None else list(_sizes(least, nodes))
        nproc = NPROC if least is not None else 1
        parts = [(node, nproc) for node in self.nodes]
        self.elastic = Elastic(parts[:nodes], () if least is None else sizes, parts[nodes:])
        self.gang = Gang(names, policy, self.elastic)
        self.left_out: tuple[Place, ...] = ()
        self.policy = policy
        self.now = 0.0
        self.orders: list[commands.Command] = []
        self.events: list[events.Event] = []

    def tell(self, event: events.Event) -> None:
        stopping = any(isinstance(order, commands.AnnounceStopping) for order in self.orders)
        ended = any(isinstance(order, commands.Finish) for order in self.orders)
        orders = self.gang.handle(event, self.now)
        assert not (ended and orders), "nothing is ordered after the end"
        launches = [command for command in orders if isinstance(command, commands.LaunchAttempt)]
        assert not (stopping and launches), "nothing is launched after a stop"
        self.orders += orders
        for launch in launches:
            assert launch.left_out[: len(self.left_out)] == self.left_out, "who is given up stays out"
            assert self.roster(launch).places, "someone takes part"
            self.left_out = launch.left_out

    def roster(self, launch: commands.LaunchAttempt) -> Roster:
        found = self.elastic.without(launch.left_out)
        assert found is not None, "never below the minimum"
        assert not set(found.places) & set(launch.left_out), "and not who is given up"
        return found

    def happen(self, what: tuple[Any, ...]) -> None:
        number = self.gang.number
        node = self.nodes[what[1] % len(self.nodes)] if what[1:] and isinstance(what[1], int) else ""
        if what[0] == "time":
            self.now += what[1]
            self.tell(events.Tick())
            return
        if what[0] == "again":
            if self.events:
                self.tell(self.events[-1 - what[1] % len(self.events)])
            return
        held = ({"device": "g", "run_id": "r", "name": "n"},)
        happened: dict[str, Any] = {
            "ready": lambda: events.NodeReady(node),
            "leases": lambda: events.LeasesGranted(node) if what[2] else events.LeasesHeld(node, held),
            "launched": lambda: events.AttemptLaunched(node, number),
            "launch_failed": lambda: events.LaunchFailed(node, number, "no"),
            "up": lambda: events.RanksUp(node, number),
            "progress": lambda: events.RankProgress(number, what[1], 1),
            "saves": lambda: events.SavesOnStop(number, what[1]),
            "exit": lambda: events.TorchrunExited(node, number, what[2], what[3]),
            "port": lambda: events.PortLost(node, number),
            "clean": lambda: events.NodeClean(node, number, 0, 0, None),
            "killed": lambda: events.NodeClean(
                node, number, 0, 0, events.Failure(what[2], 137, 9, "killed", None, self.now)
            ),
            "gone": lambda: events.LaunchFailed(node, number, "gone", Place(node, what[2])),
            "saved": lambda: events.CheckpointSaved(1),
            "holder": lambda: events.HolderLost(node, number),
            "stop": lambda: events.StopRequested(what[1], what[2]),
            "hang": lambda: events.HangFlagged(number, 0, "stands"),
            "profile": lambda: events.ProfileAsked("1-profile-a", (0,), 1.0),
            "stacks": lambda: events.StacksAsked("r"),
            "late": lambda: events.RanksLate(node, number, tuple(range(what[2]))),
            "examined": lambda: events.Examined(node, number, str(what[2]), (elsewhere(what[1]),)),
            "silent": lambda: events.NodeSilent(node, 15.0, self.now),
            "back": lambda: events.NodeBack(node),
            "lost": lambda: events.NodeLost(node, 120.0, self.now),
        }
        event = happened[what[0]]()
        self.events.append(event)
        self.tell(event)

    def count(self, kind: type) -> int:
        return sum(isinstance(order, kind) for order in self.orders)


@settings(deadline=None)
@given(POLICIES, st.integers(1, 3), LEAST, SPARES, st.lists(HAPPENINGS, max_size=60))
def test_no_history_breaks_the_rules(
    policy: Policy,
    nodes: int,
    least: tuple[int, int] | None,
    spares: int,
    history: list[tuple[Any, ...]],
) -> None:
    """No launch after a stop, nothing after the end, no more attempts than allowed, each ended once."""
    world = World(policy, nodes, least, spares)
    for what in history:
        world.happen(what)
    shrinks = NPROC * (nodes + spares) if least is not None or spares else 0
    tries = (1 + policy.max_restarts) * (1 + shrinks) + PORT_RETRIES
    assert world.count(commands.LaunchAttempt) <= tries * (1 + NEVER_RAN_RETRIES)
    assert world.count(commands.EndAttempt) <= world.count(commands.LaunchAttempt)
    assert world.count(commands.Finish) <= 1


@settings(deadline=None)
@given(POLICIES, st.integers(1, 3), LEAST, SPARES, st.lists(HAPPENINGS, max_size=40))
def test_every_history_ends_once_torchrun_is_gone(
    policy: Policy,
    nodes: int,
    least: tuple[int, int] | None,
    spares: int,
    history: list[tuple[Any, ...]],
) -> None:
    """From any point: if leases come and every torchrun fails from now on, the run finishes."""
    world = World(policy, nodes, least, spares)
    for what in history:
        world.happen(what)
    for _ in range(80):
        if world.gang.phase == "finished":
            return
        for kind in ("ready", "leases", "launched", "exit", "clean"):
            for number in range(nodes + spares):
                world.happen((kind, number, kind == "leases" or 1, False))
        world.happen(("time", 40.0))
    raise AssertionError(world.gang.phase)


@settings(deadline=None)
@given(POLICIES, st.integers(1, 3), LEAST, SPARES, st.lists(HAPPENINGS, max_size=40))
def test_a_stop_ends_every_history_though_nothing_obeys(
    policy: Policy,
    nodes: int,
    least: tuple[int, int] | None,
    spares: int,
    history: list[tuple[Any, ...]],
) -> None:
    """After a stop, time alone brings the end: an ignored SIGTERM is followed by SIGKILL, and that by
    a verdict."""
    world = World(policy, nodes, least, spares)
    for what in history:
        world.happen(what)
    before = len(world.orders)
    world.happen(("stop", StopKind.GRACEFUL, StopCause.USER))
    for _ in range(12):
        world.happen(("time", 40.0))
    assert world.gang.phase == "finished"
    later = world.orders[before:]
    terminated = {order.node for order in later if isinstance(order, commands.Terminate)}
    assert terminated <= {order.node for order in later if isinstance(order, commands.Kill)}
