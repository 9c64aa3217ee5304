"""Folds of the journals of a run: its nodes, requests, hangs, attempts, checkpoints and reports."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torchdeck.contract.journal import Event
from torchdeck.contract.run_states import StopCause
from torchdeck.runs.replay import typed
from torchdeck.runs.replay.stragglers_seen import StragglersSeen
from torchdeck.runs.run_state import AttemptView, CheckpointSeen, Hang, RankExit


class NodesSeen:
    """Nodes in a run's history.

    Attributes:
        followers: nodes whose agent follows another node's.
        departed: followers for which the run is over.
        silent: nodes that the leader has not heard for a while → its `node_silent` or `node_lost`.
        leaderless: nodes that have given up the leader → the launch.unattended setting of their ranks.
        gave_up_leader: nodes that last reported the leader as given up; their agent may have ended.
        members: nodes of the last attempt.
        leader_lost: nodes → time of that last report, by their own clocks.
        clocks: seconds that a node's clock is ahead of the leader's, and the error margin.
    """

    def __init__(self) -> None:
        self.followers: set[str] = set()
        self.members: frozenset[str] = frozenset()
        self.departed: set[str] = set()
        self.silent: dict[str, Event] = {}
        self.leaderless: dict[str, str] = {}
        self.gave_up_leader: set[str] = set()
        self.leader_lost: dict[str, float] = {}
        self._deserted: dict[str, float] = {}
        """Nodes on which nothing lives that could say more → their `leader_lost` that this ends."""
        self.clocks: dict[str, tuple[float, float]] = {}
        self._devices: dict[str, tuple[str, ...]] = {}
        self._asked: Event | None = None
        self._last_agent = 0.0

    @property
    def go_on_alone(self) -> tuple[str, ...]:
        """Nodes whose ranks are detached: they continue without the leader, and after its end."""
        going = (node for node, unattended in self.leaderless.items() if unattended == "continue")
        return tuple(node for node in going if self._deserted.get(node) != self.leader_lost[node])

    @property
    def untold(self) -> tuple[str, ...]:
        """Nodes with live agents that have not reported the gang's token, for which a missing agent waits.

        An agent that has started received it; that may be in another journal, which is read later.
        """
        asked = self._asked
        return () if asked is None or self._last_agent > asked.time else typed.texts(asked.fields, "nodes")

    @property
    def devices(self) -> tuple[str, ...]:
        """All leased devices."""
        return tuple(device for devices in self._devices.values() for device in devices)

    def agent_started(self, node: str, event: Event) -> None:
        self._last_agent = max(self._last_agent, event.time)
        if event.fields.get("part") == "follower":
            self.followers.add(node)
        elif event.fields.get("part") == "lead":
            self.silent.clear()  # a leader begins to listen again
            self.followers.discard(node)  # it may have followed in an earlier session
        self.departed.discard(node)
        self.gave_up_leader.discard(node)
        self.leaderless.pop(node, None)

    def agent_departed(self, node: str) -> None:
        """Record that the run is over for a follower."""
        self.departed.add(node)
        self.leaderless.pop(node, None)

    def leader_sentence(self, node: str, event: Event) -> None:
        """Record a follower's report on the leader."""
        if event.name == "lead_lost":
            self.leaderless[node] = typed.text(event.fields, "unattended", "stop")
            self.leader_lost[node] = event.time
            self.gave_up_leader.add(node)
        else:
            self.leaderless.pop(node, None)
            self.gave_up_leader.discard(node)

    def uses(self, node: str, event: Event) -> None:
        """Record that a node leased devices, or began an attempt with them."""
        self._devices[node] = typed.texts(event.fields, "devices") or self._devices.get(node, ())

    def leased(self, node: str, event: Event) -> None:
        self._devices[node] = typed.texts(event.fields, "devices")

    def taking_part(self, event: Event) -> None:
        """Record that an attempt begins on these nodes and no others."""
        nodes = self.members = frozenset(typed.texts(event.fields, "nodes"))
        self.silent = {node: said for node, said in self.silent.items() if node in nodes}
        self._devices = {node: devices for node, devices in self._devices.items() if node in nodes}

    def reported(self, event: Event) -> None:
        """Record the leader's report on a node, or a controller's on the token or on a deserted node."""
        if event.name in ("token_asked", "token_settled"):
            self._asked = event if event.name == "token_asked" else None
            return
        node = typed.text(event.fields, "node")
        lost = typed.number(event.fields, "lost")
        if event.name == "deserted" and lost is not None:
            self._deserted[node] = lost
        elif event.name in ("node_silent", "node_lost"):
            self.silent[node] = event
        elif event.name == "node_back":
            self.silent.pop(node, None)
        elif event.name == "clock":
            offset, error = typed.number(event.fields, "offset"), typed.number(event.fields, "error")
            if offset is not None and error is not None:
                self.clocks[node] = (offset, error)


class LostNodes:
    """Lost nodes according to the controller's journal. Sessions of a run are numbered as in `lost`."""

    def __init__(self) -> None:
        self._lost: dict[str, int] = {}
        """Node → the last session that was given up while the node did not answer."""
        self._fenced: dict[str, int] = {}
        """Node → the session before which all agents there have ended."""

    def given_up(self, event: Event) -> None:
        """Record that a controller ended a session."""
        session = typed.whole(event.fields, "life") or 0
        for node in typed.texts(event.fields, "nodes"):
            self._lost[node] = max(session, self._lost.get(node, 0))

    def fenced(self, event: Event) -> None:
        """Record that a node has answered: nothing of earlier sessions is alive there."""
        node = typed.text(event.fields, "node")
        self._fenced[node] = max(typed.whole(event.fields, "life") or 0, self._fenced.get(node, 0))

    def unfenced(self, agents: Mapping[str, int]) -> tuple[str, ...]:
        """Return nodes on which an agent of a lost session may be alive; `agents`: node → session of its last
        agent.

        There is one agent per node: one of a later session has replaced it.
        """
        return tuple(
            node
            for node, session in self._lost.items()
            if self._fenced.get(node, 0) <= session and agents.get(node, 0) <= session
        )


class RequestsSeen:
    """Requests in a run's history; forwarding and taking are recorded in different journals."""

    def __init__(self) -> None:
        self._forwarded: dict[str, str] = {}
        self._taken: set[str] = set()

    @property
    def waiting(self) -> tuple[str, ...]:
        """Kinds of those that the controller forwarded and no agent has taken yet."""
        return tuple(kind for id_, kind in self._forwarded.items() if id_ not in self._taken)

    def has_taken(self, request_id: str) -> bool:
        """Return whether an agent has taken it."""
        return request_id in self._taken

    def forwarded(self, event: Event) -> None:
        self._forwarded[typed.text(event.fields, "id")] = typed.text(event.fields, "kind")

    def taken(self, event: Event) -> None:
        self._taken.add(typed.text(event.fields, "id"))


class HangsSeen:
    """Hung ranks in the run's current session."""

    def __init__(self, root: str = "") -> None:
        """Begin without hangs; `root` is the run directory."""
        self._root = root
        self._by_rank: dict[int, dict[int, Hang]] = {}
        """rank → attempt → hang."""
        self._latest: dict[int, tuple[int, Hang, float]] = {}
        """rank → attempt, its latest hang, and when that was flagged."""
        self._over: dict[int, float] = {}
        self._stop: Event | None = None

    def stopping(self, event: Event) -> None:
        """Record that the run is being stopped."""
        self._stop = event

    def at_stop(self, attempt: int) -> dict[int, Hang]:
        """Return rank → its hang in `attempt` when the user stopped the run; empty if it was not stopped so.

        Times are compared, as the journals of other nodes may be read later.
        """
        if self._stop is None or typed.text(self._stop.fields, "why", "user") != StopCause.USER:
            return {}
        stop = self._stop.time
        return {
            rank: hang
            for rank, (number, hang, since) in self._latest.items()
            if number == attempt and since <= stop <= self._over.get(rank, stop)
        }

    def of(self, attempt: int, exited: Iterable[int]) -> dict[int, Hang]:
        """Return rank → its hang in `attempt`, without ranks that have exited."""
        gone = set(exited)
        return {
            rank: hangs[attempt]
            for rank, hangs in self._by_rank.items()
            if attempt in hangs and rank not in gone
        }

    def flagged(self, event: Event, current: int) -> None:
        """Record a hung rank: in the attempt that `event` names, else in the `current` one."""
        rank = typed.whole(event.fields, "rank")
        number = typed.whole(event.fields, "attempt") or current
        if rank is not None:
            hang = hang_of(event.fields, number, self._root)
            self._by_rank.setdefault(rank, {})[number] = hang
            self._latest[rank] = (number, hang, event.time)
            self._over.pop(rank, None)

    def over(self, event: Event) -> None:
        """Record that the rank makes progress again."""
        rank = typed.whole(event.fields, "rank") or 0
        self._by_rank.pop(rank, None)
        self._over[rank] = event.time


def hang_of(fields: Mapping[str, Any], attempt: int, root: str = "") -> Hang:
    """Return the hang that an event's fields describe, in the run directory `root`."""
    examination = typed.text(fields, "examination")
    folder = f"{root}/attempts" if root else "attempts"
    return Hang(
        typed.whole(fields, "rank") or 0,
        typed.text(fields, "phase"),
        typed.whole(fields, "step"),
        typed.number(fields, "still"),
        typed.number(fields, "limit"),
        typed.text(fields, "detail"),
        typed.text(fields, "kind"),
        f"{folder}/{attempt}/examinations/{examination}" if examination else "",
    )


class AttemptsSeen:
    """Attempts of a run, and how their ranks ended."""

    def __init__(self) -> None:
        self.by_number: dict[int, AttemptView] = {}
        self._exits: dict[int, dict[tuple[int, str], RankExit]] = {}
        """attempt → (rank, node) → exit."""

    def begin(self, number: int, event: Event, given_up: str) -> None:
        """Record that the run begins an attempt, as reported by its leader."""
        self.by_number[number] = typed.attempt(number, event, given_up)

    def add(self, number: int, event: Event) -> None:
        """Record an attempt that is not known yet."""
        if number not in self.by_number:
            self.by_number[number] = typed.attempt(number, event)

    def resumes(self, number: int, event: Event) -> None:
        """Record the checkpoint from which a known attempt resumes."""
        self.by_number[number] = dataclasses.replace(
            self.by_number[number], resume=typed.text(event.fields, "resume")
        )

    def ended(self, event: Event) -> None:
        """Record the outcome of an attempt."""
        attempt = self.by_number.get(typed.whole(event.fields, "attempt") or 0)
        if attempt is None:
            return
        self.by_number[attempt.number] = dataclasses.replace(
            attempt,
            ended=event.time,
            outcome=typed.text(event.fields, "outcome", "failed"),
            first_failure=typed.failure(event.fields.get("first_failure")),
        )

    def rank_exited(self, node: str, event: Event) -> None:
        """Record the end of a rank on `node`."""
        rank = typed.whole(event.fields, "rank")
        attempt = typed.whole(event.fields, "attempt") or 0
        if rank is None or attempt not in self.by_number:
            return
        code, signal = typed.whole(event.fields, "code"), typed.signal_name(event.fields)
        exit_ = RankExit(rank, code, signal, node, event.time)
        self.rank_ended(attempt, exit_)

    def rank_ended(self, attempt: int, exit_: RankExit) -> None:
        """Record a rank's end; a later report replaces it."""
        self._exits.setdefault(attempt, {})[exit_.rank, exit_.node] = exit_

    def exits(self, attempt: int) -> tuple[RankExit, ...]:
        """Return how ranks of the attempt ended, in the order of the reports."""
        return tuple(self._exits.get(attempt, {}).values())


class CheckpointsSeen:
    """Complete checkpoints of a run."""

    def __init__(self) -> None:
        self.newest: CheckpointSeen | None = None
        self.of_script: dict[tuple[str, str], CheckpointSeen] = {}
        """(node, path) → checkpoint that a script wrote by itself and that is still there, oldest first."""

    def complete(self, node: str, event: Event, *, is_follower: bool) -> None:
        """Record a `checkpoint`. With separate disks each node reports it: the leader's copy is shown."""
        step, path = typed.whole(event.fields, "step"), typed.text(event.fields, "path")
        seconds, size = typed.number(event.fields, "seconds"), typed.whole(event.fields, "size")
        kind = typed.text(event.fields, "kind")
        about = event.fields.get("about") is True
        seen = CheckpointSeen(step, path, None if kind else seconds, size, event.time, node, kind, about)
        if kind:
            self.of_script.pop((node, path), None)
            self.of_script[node, path] = seen
        known = self.newest
        if not is_follower or known is None or (seen.step or 0) > (known.step or 0):
            self.newest = seen

    def gone(self, node: str, event: Event) -> None:
        """Record that a script has deleted a checkpoint of its own."""
        seen = self.of_script.pop((node, typed.text(event.fields, "path")), None)
        if seen is not None and seen == self.newest:
            left = [each for (where, _), each in self.of_script.items() if where == node]
            self.newest = left[-1] if left else None


class Reports:
    """Reports of one session's agents, besides its state."""

    def __init__(self) -> None:
        self.results: dict[str, Event] = {}
        """Node → files that the program wrote next to its code there."""
        self.environments: dict[str, str] = {}
        """Node → what is being done for the environment of its ranks; empty unless one is being made."""
        self.found_ranks: dict[int, int] = {}
        """Rank → process, of ranks that a plain process started itself."""
        self.damaged: dict[str, str] = {}
        """Checkpoint → why it cannot be used."""
        self.numbers_left_out: set[int] = set()
        """Ranks of which some printed numbers are missing."""
        self.strangers: Event | None = None
        """The last report of foreign connections to the run's store."""
        self.stragglers = StragglersSeen()
        self.quiet: Event | None = None
        """Since when nothing has come of a training that is only watched."""

    def add(self, event: Event) -> None:
        """Record one of `EVENTS`."""
        self.EVENTS[event.name](self, event)

    def _environment(self, event: Event) -> None:
        node, text = typed.text(event.fields, "node"), typed.text(event.fields, "text")
        self.environments.pop(node, None)
        if text:
            self.environments[node] = text

    def _quiet(self, event: Event) -> None:
        self.quiet = event if event.name == "quiet" else None

    def _checkpoint_damaged(self, event: Event) -> None:
        self.damaged[typed.text(event.fields, "path")] = typed.text(event.fields, "why")

    def _numbers_left_out(self, event: Event) -> None:
        self.numbers_left_out.update(typed.wholes(event.fields, "ranks"))

    def _ranks_found(self, event: Event) -> None:
        found = typed.mapping(event.fields, "ranks").items()
        self.found_ranks = {
            int(rank): pid for rank, pid in found if rank.isdecimal() and type(pid) is int and pid > 0
        }

    def _results(self, event: Event) -> None:
        self.results[typed.text(event.fields, "node")] = event

    def _strangers(self, event: Event) -> None:
        self.strangers = event

    EVENTS: Mapping[str, Callable[[Reports, Event], None]] = {
        "environment": _environment,
        "quiet": _quiet,
        "quiet_over": _quiet,
        "checkpoint_damaged": _checkpoint_damaged,
        "numbers_left_out": _numbers_left_out,
        "ranks_found": _ranks_found,
        "results": _results,
        "straggler": lambda reports, event: reports.stragglers.take(event),
        "straggler_over": lambda reports, event: reports.stragglers.take(event),
        "strangers": _strangers,
    }
