"""State of the attempt that runs now, as the gang knows it."""

from __future__ import annotations

from collections.abc import Container, Sequence
from enum import Enum
from typing import NamedTuple

from torchdeck.agent.doctor.stragglers import StragglerWatch, sentence
from torchdeck.agent.gang import commands, events
from torchdeck.agent.gang.events import (
    CRASHES,
    EXIT_DELAY,
    Failure,
    LeasesHeld,
    NodeClean,
    ProfileAsked,
    StacksAsked,
)
from torchdeck.agent.gang.hangs import Hangs
from torchdeck.contract.plan.elastic import Place
from torchdeck.contract.plan.policy import Policy
from torchdeck.contract.run_states import Outcome, StopKind


class Ending(Enum):
    """How far the ending of an attempt has gone."""

    STOP_FILE = 1
    TERM = 2
    KILL = 3


class AttemptState:
    """One start of the gang: which nodes are in which part of their life."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.launched: set[str] = set()
        self.up: set[str] = set()
        self.progressed = False
        self.announced = False
        self.saves_on_stop = False
        """A script's trainer polls for the stop file now."""
        self.asked_to_save = False
        """The stop file was made."""
        self.codes: dict[str, int | None] = {}
        """torchrun's exit code by node, once it is gone; None when no one saw it."""
        self.completed: dict[str, bool] = {}
        self.clean: set[str] = set()
        self.killed = 0
        self.left = 0
        self.port_lost = False
        self.hang = ""
        """Why the attempt is ended for a restart."""
        self.hung: int | None = None
        """The rank that is stalled then."""
        self.hangs = Hangs()
        self.stragglers = Stragglers()
        self.gone: Place | None = None
        """A place whose device is gone."""
        self.gone_why = ""
        self.failed_node: str | None = None
        """The first whose torchrun failed."""
        self.ending: Ending | None = None
        self._failures: list[Failure] = []

    def alive(self, nodes: Sequence[str]) -> list[str]:
        """Those of `nodes` whose torchrun is not known to be gone."""
        return [node for node in nodes if node not in self.codes]

    def asked(
        self, event: StacksAsked | ProfileAsked, nodes: Sequence[str], silent: Container[str]
    ) -> list[commands.Command]:
        """A person asks for the stacks of all ranks, with the next examination, or for a profile of some.

        Nodes that answer profile their ranks; none while no attempt runs.
        """
        if isinstance(event, StacksAsked):
            self.hangs.ask(event.request)
            return []
        answering = [node for node in self.alive(nodes) if node in self.launched and node not in silent]
        return [] if self.ending else [commands.Profile(node, self.number, *event) for node in answering]

    def is_running(self, nodes: Sequence[str], *, cooperative: bool) -> bool:
        """Ranks make progress; of a script, which need not say so, all are up."""
        return self.progressed or (not cooperative and self.up >= set(nodes))

    def torchrun_gone(self, node: str, code: int | None, *, completed: bool) -> bool:
        """Record that a node's torchrun is gone; False if already known."""
        if node in self.codes:
            return False
        self.codes[node] = code
        self.completed[node] = completed
        if code != 0 and self.failed_node is None and self.ending is None:
            self.failed_node = node
        return True

    def node_clean(self, event: NodeClean) -> bool:
        """Record that nothing is left on a node; False if already known, or if its torchrun may still run."""
        if event.node not in self.codes or event.node in self.clean:
            return False
        self.clean.add(event.node)
        self.killed += event.killed
        self.left += event.left
        if event.failure is not None:
            self.add_failure(event.failure)
        return True

    def place_gone(self, place: Place | None, why: str) -> None:
        """Note that something to run cannot run: the first place that is gone is to blame, if one is."""
        if self.gone is None:
            self.gone, self.gone_why = place, why
        self.add_failure(Failure(None, None, None, why, None, 0.0))

    def node_gone(self, node: str, why: str, heard: float) -> None:
        """A node does not answer any more, since `heard` (seconds since the epoch)."""
        if self.gone is None:
            self.gone, self.gone_why = Place(node, None), why
        self.add_failure(Failure(None, None, None, why, None, heard, gone=True))

    @property
    def gone_node(self) -> bool:
        """A node does not answer any more."""
        return any(failure.gone for failure in self._failures)

    @property
    def never_ran(self) -> bool:
        """Whether no node has reported a started rank."""
        return not self.up and not self.progressed

    def give_up(self, nodes: Sequence[str]) -> None:
        """Wait no longer for those of `nodes` that are not clean."""
        for node in nodes:
            self.codes.setdefault(node, None)
        self.left += len(set(nodes) - self.clean)
        self.clean = set(nodes)

    def add_failure(self, failure: Failure) -> None:
        """One of a node, its time on our clock."""
        self._failures.append(failure)

    @property
    def failure(self) -> Failure | None:
        """The first failure of all nodes; a rank's own explains more than torchrun's.

        A rank that was killed or crashed comes before one that, a moment earlier, reports a lost connection;
        a node that is gone comes before ranks that lost their connections to it. Failures that the clocks'
        error does not separate are named with it.
        """
        gone = min((found for found in self._failures if found.gone), key=_order, default=None)
        first = min((found for found in self._failures if not found.gone), key=_order, default=None)
        if gone is not None and (first is None or _follows_from(first, gone)):
            return gone
        if first is None or first.rank is None:
            return first
        own = [failure for failure in self._failures if failure.rank is not None]
        died = [found for found in own if found.signal in CRASHES and found.time < first.time + EXIT_DELAY]
        first = min(died, key=_order, default=first)
        tied = (found.rank for found in own if found is not first and _cannot_tell(found, first))
        return first._replace(tied=tuple(sorted(rank for rank in tied if rank is not None)))

    def outcome(self, *, stopped: bool, cooperative: bool) -> Outcome:
        """How it ended.

        A run that came to its end before the stop reached it succeeded. Ranks that save when
        they are asked exit with 0 for a stop too, so they must report that they did all their steps; torchrun
        never exits with 0 after SIGTERM.
        """
        whole = all(code == 0 for code in self.codes.values())
        if whole and (not stopped or not cooperative or all(self.completed.values())):
            return Outcome.SUCCEEDED
        return Outcome.STOPPED if stopped else Outcome.FAILED

    def failure_of(self, outcome: Outcome) -> Failure | None:
        """Return the failure of an attempt with that outcome; None if it did not fail."""
        if outcome is Outcome.SUCCEEDED:
            return None
        if outcome is Outcome.STOPPED or self.failure is not None:
            return self.failure
        code = next((code for code in self.codes.values() if code != 0), None)
        return Failure(None, code, None, self.hang or "torchrun failed", None, 0.0)


def _cannot_tell(one: Failure, other: Failure) -> bool:
    """Whether either may have been first; a crash is no consequence of what does not crash."""
    return (one.signal in CRASHES) == (other.signal in CRASHES) and abs(one.time - other.time) < (
        one.error + other.error
    )


def _follows_from(failure: Failure, gone: Failure) -> bool:
    """Whether it may be a consequence of the node that is gone: a crash is none, nor what came before."""
    if failure.rank is None:
        return True
    return failure.signal not in CRASHES and failure.time + failure.error >= gone.time


def _order(failure: Failure) -> tuple[bool, float]:
    return failure.rank is None, failure.time


# How a living attempt is asked to end, then made to: stop file, SIGTERM, SIGKILL, a grace each. Pure.

KILL_LIMIT = 15.0
"""Seconds after SIGKILL until a process in the kernel's hands is given up."""


class Step(NamedTuple):
    """Current action, and its deadline."""

    orders: list[commands.Command]
    deadline: float | None
    """Monotonic seconds."""


class Escalation:
    """Chooses how urgently an attempt is asked to end; the last request is `AttemptState.ending`."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def end(
        self, attempt: AttemptState, nodes: Sequence[str], kind: StopKind, now: float, deadline: float | None
    ) -> Step:
        """Ask the attempt to end, unless it was asked as urgently before.

        Args:
            attempt: the living one; its `ending` is updated.
            nodes: all that take part.
            kind: how urgent it is.
            now: monotonic seconds.
            deadline: what the gang waits for until now, if anything.
        """
        alive = attempt.alive(nodes)
        if not alive or attempt.ending is Ending.KILL:
            return Step([], deadline)  # only the sweep is left, which has a limit of its own
        saves = attempt.saves_on_stop or attempt.asked_to_save
        polls = attempt.progressed if self._policy.cooperative_stop else saves
        if kind is StopKind.GRACEFUL and polls and attempt.ending is None:
            attempt.ending, attempt.asked_to_save = Ending.STOP_FILE, True
            return Step([commands.TouchStop(attempt.number)], now + self._policy.stop_grace)
        # a script that is asked to stop may save on SIGTERM, so it has the long grace, once
        may_save = not self._policy.cooperative_stop and not attempt.asked_to_save
        saving = kind is StopKind.GRACEFUL and may_save and attempt.announced
        until = now + (self._policy.stop_grace if saving else self._policy.kill_grace)
        if attempt.ending is Ending.TERM:
            return Step([], until if deadline is None else min(until, deadline))
        attempt.ending = Ending.TERM
        return Step([commands.Terminate(node) for node in alive if node in attempt.launched], until)

    def kill(self, attempt: AttemptState, nodes: Sequence[str], now: float) -> Step:
        """SIGKILL to all that is left of it."""
        attempt.ending = Ending.KILL
        return Step([commands.Kill(node) for node in attempt.alive(nodes)], now + KILL_LIMIT)


# Which nodes are ready and hold their devices, before a run's first attempt. Pure.


class ReadyBarrier:
    """All nodes or none: two runs that each hold half of what both want would wait for ever."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self._nodes = frozenset(nodes)
        self._ready: set[str] = set()
        self._leased: set[str] = set()
        self._refusal: LeasesHeld | None = None

    def ready(self, node: str) -> bool:
        """A node can take orders; whether all can."""
        self._ready.add(node)
        return self._ready >= self._nodes

    def change(self, nodes: Sequence[str]) -> bool:
        """Other nodes are to be ready; whether all of them are."""
        self._nodes = frozenset(nodes)
        return self._ready >= self._nodes

    def granted(self, node: str) -> bool:
        """A node holds its devices; whether all do."""
        self._leased.add(node)
        return self._leased >= self._nodes

    def refused(self, event: LeasesHeld) -> tuple[list[str], bool]:
        """(nodes that give back what they hold, whether it is news whose the devices are)."""
        holding, news = sorted(self._leased), event != self._refusal
        self._leased.clear()
        self._refusal = event
        return holding, news


def refusal_text(event: LeasesHeld) -> str:
    """Describe which run has the devices, and what to do."""
    whose = "; ".join(
        f"device {held.get('device')} is held by run {held.get('run_id')} ({held.get('name')})"
        for held in event.held_by
    )
    return f"{whose}. Wait for it with --queue, or choose other devices"


class Stragglers:
    """Reports of all nodes on when their ranks reached collectives."""

    def __init__(self) -> None:
        self._watch = StragglerWatch()
        self._nodes: dict[int, str] = {}
        self._errors: dict[str, float] = {}

    def arrived(self, event: events.Arrived, places: Sequence[str]) -> list[commands.Command]:
        """Take in a node's reports; returns what is to be journaled.

        Args:
            event: the reports.
            places: the node of each rank, by the plan.
        """
        # under c10d torchrun numbers the nodes when they meet
        self._nodes |= {report.facts.rank: event.node for report in event.reports}
        self._errors[event.node] = event.error
        before = self._watch.announced
        if not self._watch.take(event.reports, len(places), 2 * max(self._errors.values())):
            return []
        now = self._watch.announced
        told: list[commands.Command] = []
        if before is not None and (now is None or now.ranks != before.ranks):
            told.append(commands.AnnounceStragglerOver(event.attempt, before.ranks))
        if now is not None:
            nodes = self._nodes if len(set(self._nodes.values())) > 1 else {}
            differs = tuple(difference.sentence for difference in now.differences)
            share, since = round(now.share, 3), round(now.since, 3)
            detail = sentence(now, nodes)
            told.append(
                commands.AnnounceStraggler(event.attempt, now.ranks, share, since, now.step, detail, differs)
            )
        return told
