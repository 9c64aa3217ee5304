"""History of a run, folded from its journals event by event. No clocks, no files, no processes.

With several nodes the leader alone reports the run's state: started, running, stopped, finished. The others
report what happens on them: their ranks' exits, hangs, checkpoints. Journals are read one after the other,
and those of other nodes arrive late, so nothing may depend on the order of events of two nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torchdeck.contract.journal import Event
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.runs.replay import typed
from torchdeck.runs.replay.seen import (
    AttemptsSeen,
    CheckpointsSeen,
    HangsSeen,
    LostNodes,
    NodesSeen,
    Reports,
    RequestsSeen,
)
from torchdeck.runs.run_state import AttemptView, DeviceHolder, Hang, RankExit, RunState

FINAL = {state.value: state for state in (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED)}
"""Final states as reported by a leader."""
ENDS = {**FINAL, RunState.LOST.value: RunState.LOST}
"""The same, and the final state that a controller reports if the leader cannot."""


class RunHistory:
    """State of the fold. Feed it the controller's events, then each node's; any order works.

    A run has one session for every time it was started or resumed. `resumed` names how many `finished` events
    were in the journals then, and the session after that many is the one whose state counts. A controller
    ends a session by `lost`, which counts as one of them: later events of its agents change nothing once the
    run was resumed.
    """

    def __init__(self, root: str = "") -> None:
        """Begin without events; `root` is the run directory, for names of files in it."""
        self._root = root
        self.created: Event | None = None
        self.controller: ProcessIdentity | None = None
        self.epoch = 0
        self.agents: dict[str, ProcessIdentity] = {}
        self.holders: dict[str, ProcessIdentity] = {}
        self._attempts = AttemptsSeen()
        self.checkpoints = CheckpointsSeen()
        self.nodes = NodesSeen()
        self._lost_nodes = LostNodes()
        self._requests = RequestsSeen()
        self.last_times: dict[str, float] = {}
        """Time of the last event by whose clock: a node's name; empty for this machine."""
        self._last_agent = 0.0
        self._finished_count = 0
        self._lost: dict[int, Event] = {}
        """Lives that a controller has ended."""
        self._agents_session: dict[str, int] = {}
        self._agents_begun: dict[str, float] = {}
        self._resumed_after = 0
        self._transport_failed: Event | None = None
        self._start_session()

    def _start_session(self) -> None:
        self.phase = RunState.PENDING
        self.finished: Event | None = None
        self.refused = False
        self.attempt: int | None = None
        self.held_by: tuple[DeviceHolder, ...] = ()
        self._hangs = HangsSeen(self._root)
        self.reports = Reports()
        self.stopping: tuple[str, str] | None = None
        self.restart_delay: float | None = None
        self.given_up = ""
        self.agent_errors: dict[str, Event] = {}
        """Errors of their own that ended agents in this session, by node; the last of each."""

    @property
    def end(self) -> Event | None:
        """How this session ended: as reported by its leader, or else by a controller; None while it is
        active.
        """
        return self.finished or self._lost.get(self._resumed_after)

    @property
    def is_given_up(self) -> bool:
        """Whether a controller ended this session and its leader has not."""
        return self.finished is None and self._resumed_after in self._lost

    @property
    def unfenced(self) -> tuple[str, ...]:
        """Nodes that did not answer when the run was given up: processes of it may still be alive there."""
        return self._lost_nodes.unfenced(self._agents_session)

    @property
    def needs_controller(self) -> bool:
        """Whether the run is active, or may be on some node."""
        return self.end is None or bool(self.nodes.go_on_alone or self.unfenced)

    @property
    def finishes(self) -> int:
        """Number of sessions that have ended, as far as is known."""
        return self._finished_count + len(self._lost)

    @property
    def session(self) -> int:
        """Number of the session whose state counts."""
        return self._resumed_after

    def agent_session(self, node: str) -> int | None:
        """Return the session of a node's last agent; None if it has had none."""
        return self._agents_session.get(node)

    def has_begun(self, node: str) -> bool:
        """Return whether a node has had an agent in the session whose state counts."""
        return self._agents_session.get(node, -1) >= self._resumed_after

    def agent_begun(self, node: str) -> float | None:
        """Return when a node's agent of this session started, by the node's clock; None before that."""
        return self._agents_begun.get(node) if self.has_begun(node) else None

    @property
    def is_begun(self) -> bool:
        """Whether any node has had an agent in this session."""
        return any(map(self.has_begun, self.agents))

    @property
    def hangs(self) -> dict[int, Hang]:
        """Hung ranks of the current attempt."""
        attempt = self.attempts.get(self.attempt or 0)
        if self.end is not None or attempt is None or attempt.ended is not None:
            return {}
        return self._hangs.of(attempt.number, (exit_.rank for exit_ in self.exits(attempt.number)))

    @property
    def hangs_at_stop(self) -> dict[int, Hang]:
        """Ranks of the last attempt that hung when the user stopped it."""
        return self._hangs.at_stop(self.attempt or 0)

    @property
    def attempts(self) -> Mapping[int, AttemptView]:
        """Attempts by number, without the exits of their ranks; see `exits`."""
        return self._attempts.by_number

    def exits(self, attempt: int) -> tuple[RankExit, ...]:
        """Return how ranks of the attempt ended, in the order of the reports."""
        return self._attempts.exits(attempt)

    @property
    def requests_waiting(self) -> tuple[str, ...]:
        """Kinds of requests that the controller forwarded and no agent has taken yet."""
        return self._requests.waiting

    def has_taken(self, request_id: str) -> bool:
        """Return whether an agent has taken the request."""
        return self._requests.has_taken(request_id)

    @property
    def transport_failure(self) -> str | None:
        """Why no agent can be started, unless one came up later (the two are in different journals)."""
        failed = self._transport_failed
        if failed is None or self._last_agent > failed.time:
            return None
        return typed.text(failed.fields, "why", "the node could not be reached")

    def controller_event(self, event: Event) -> None:
        """Process one event of the controller's journal."""
        self.last_times[""] = max(self.last_times.get("", event.time), event.time)
        self._call(self._CONTROLLER.get(event.name), event)

    def node_event(self, node: str, event: Event) -> None:
        """Process one event of a node's journal."""
        self.last_times[node] = max(self.last_times.get(node, event.time), event.time)
        if event.name == "agent_started":
            self._agent(node, event)
        elif event.name == "finished":
            self._finished(node, event)
        elif event.name == "checkpoint":
            self.checkpoints.complete(node, event, is_follower=node in self.nodes.followers)
        elif event.name == "checkpoint_gone":
            self.checkpoints.gone(node, event)
        elif event.name == "rank_exited":
            self._attempts.rank_exited(node, event)
        elif self._is_late(node):
            self._call(self._LATE.get(event.name), event)
        elif event.name == "attempt_started":
            self._attempt_started(node, event)
        elif event.name == "node_finished":
            self.nodes.agent_departed(node)
        elif event.name in ("lead_lost", "lead_back"):
            self.nodes.leader_sentence(node, event)
        elif event.name == "leased":
            self._leased(node, event)
        elif event.name == "agent_failed":
            self.agent_errors[node] = event
        elif self.finished is None or node in self.nodes.followers or event.name == "request":
            self._call(self._NODE.get(event.name), event)

    def _call(self, handler: Callable[[RunHistory, Event], None] | None, event: Event) -> None:
        if handler is not None:
            handler(self, event)

    # the controller's events

    def _created(self, event: Event) -> None:
        self.created = event

    def _controller_started(self, event: Event) -> None:
        epoch = typed.whole(event.fields, "epoch") or 0
        if epoch >= self.epoch:
            self.epoch = epoch
            self.controller = ProcessIdentity.from_json(event.fields.get("identity"))

    def _resumed(self, event: Event) -> None:
        after = typed.whole(event.fields, "finished") or 0
        self._resumed_after = max(self._resumed_after, after)
        self._transport_failed = None
        if self._finished_count <= self._finished_earlier:
            self._start_session()

    @property
    def _finished_earlier(self) -> int:
        """Number of `finished` events that belong to sessions before this one."""
        return self._resumed_after - sum(session < self._resumed_after for session in self._lost)

    def _is_late(self, node: str) -> bool:
        """Return whether a node's agent belongs to a session that was given up, if the run was resumed
        since.
        """
        session = self._agents_session.get(node)
        return session is not None and session < self._resumed_after and session in self._lost

    def _given_up(self, event: Event) -> None:
        if typed.text(event.fields, "state") in ENDS:
            self._lost[typed.whole(event.fields, "life") or 0] = event
            self._lost_nodes.given_up(event)

    def _fenced(self, event: Event) -> None:
        self._lost_nodes.fenced(event)

    def _forwarded(self, event: Event) -> None:
        self._requests.forwarded(event)

    def _no_transport(self, event: Event) -> None:
        self._transport_failed = event

    # the agent's events

    def _agent(self, node: str, event: Event) -> None:
        identity = ProcessIdentity.from_json(event.fields.get("identity"))
        if identity is not None:
            self.agents[node] = identity
        self._agents_session[node] = typed.whole(event.fields, "life") or 0
        self._agents_begun[node] = event.time
        self.nodes.agent_started(node, event)
        self._last_agent = max(self._last_agent, event.time)
        if self.finished is None and self.phase is RunState.PENDING and not self._is_late(node):
            self.phase = RunState.PREPARING

    def _queued(self, event: Event) -> None:
        self.phase = RunState.QUEUED
        self.held_by = typed.device_holders(event.fields)

    def _refused(self, event: Event) -> None:
        self.refused = True
        self.held_by = typed.device_holders(event.fields)

    def _leased(self, node: str, event: Event) -> None:
        self.nodes.leased(node, event)
        if self.finished is None and node not in self.nodes.followers:
            self.phase = RunState.PREPARING
            self.held_by = ()

    def _attempt_started(self, node: str, event: Event) -> None:
        self.reports.environments.pop(node, None)
        number = typed.whole(event.fields, "attempt") or 0
        holder = ProcessIdentity.from_json(event.fields.get("holder"))
        if holder is not None:
            self.holders[node] = holder
        if self.finished is None:
            self.nodes.uses(node, event)
        if node in self.nodes.followers:
            # a participant; its rank reports are not lost if the leader's journal comes later
            self._attempts.add(number, event)
        elif number in self.attempts and self.attempt == number:
            # the leader has reported that all nodes begin it
            self._attempts.resumes(number, event)
        else:
            self._begin_attempt(number, event)

    def _launching(self, event: Event) -> None:
        self._begin_attempt(typed.whole(event.fields, "attempt") or 0, event)
        self.nodes.taking_part(event)

    def _late_attempt(self, event: Event) -> None:
        """Record an attempt of a session that was given up: it existed, but is not the run's current one."""
        self._attempts.add(typed.whole(event.fields, "attempt") or 0, event)

    def _begin_attempt(self, number: int, event: Event) -> None:
        self._attempts.begin(number, event, self.given_up)
        self.given_up = ""
        if self.finished is None:
            self.attempt = number
            self.restart_delay = None
            self._advance(RunState.STARTING)

    def _running(self, _event: Event) -> None:
        self._advance(RunState.RUNNING)

    def _advance(self, phase: RunState) -> None:
        # an active stop remains the state while the attempt still comes up
        self.phase = RunState.STOPPING if self.stopping else phase

    def _stopping(self, event: Event) -> None:
        fields = event.fields
        self.stopping = (typed.text(fields, "kind", "graceful"), typed.text(fields, "why", "user"))
        self.phase = RunState.STOPPING
        self._hangs.stopping(event)

    def _restarting(self, event: Event) -> None:
        self.stopping = None
        self.phase = RunState.RESTARTING
        self.restart_delay = typed.number(event.fields, "delay")
        self.given_up = typed.given_up(event.fields)

    def _left_out(self, event: Event) -> None:
        without = typed.given_up(event.fields)
        self.given_up = f"{self.given_up}; {without}" if self.given_up else without

    def _taken_request(self, event: Event) -> None:
        self._requests.taken(event)

    def rank_ended(self, attempt: int, exit_: RankExit) -> None:
        """Record a rank's end from its own exit file, as no journal has it."""
        self._attempts.rank_ended(attempt, exit_)

    def _hang(self, event: Event) -> None:
        self._hangs.flagged(event, self.attempt or 0)

    def _hang_over(self, event: Event) -> None:
        self._hangs.over(event)

    def _reported(self, event: Event) -> None:
        self.reports.add(event)

    def _attempt_ended(self, event: Event) -> None:
        self._attempts.ended(event)

    def _of_a_node(self, event: Event) -> None:
        self.nodes.reported(event)

    def _finished(self, node: str, event: Event) -> None:
        if typed.text(event.fields, "state") not in FINAL:
            return
        session = self._agents_session.get(node, 0)
        if session in self._lost:  # its leader came back
            # the cause for which it was given up
            failed = typed.text(event.fields, "state") == RunState.FAILED
            if session == self._resumed_after and not failed:
                self.finished = event
            return
        self._finished_count += 1
        if self._finished_count <= self._finished_earlier:
            self._start_session()
        elif self.finished is None:
            self.finished = event

    _CONTROLLER: Mapping[str, Callable[[RunHistory, Event], None]] = {
        "created": _created,
        "controller_started": _controller_started,
        "resumed": _resumed,
        "request": _forwarded,
        "transport_failed": _no_transport,
        "lost": _given_up,
        "fenced": _fenced,
        **dict.fromkeys(("token_asked", "token_settled", "deserted"), _of_a_node),
    }
    _NODE: Mapping[str, Callable[[RunHistory, Event], None]] = {
        "queued": _queued,
        "refused": _refused,
        "launching": _launching,
        **dict.fromkeys(("node_silent", "node_lost", "node_back", "clock"), _of_a_node),
        "running": _running,
        "stopping": _stopping,
        "restarting": _restarting,
        "left_out": _left_out,
        "request": _taken_request,
        "hang": _hang,
        "hang_over": _hang_over,
        "attempt_ended": _attempt_ended,
        **dict.fromkeys(Reports.EVENTS, _reported),
    }
    _LATE: Mapping[str, Callable[[RunHistory, Event], None]] = {
        **dict.fromkeys(("launching", "attempt_started"), _late_attempt),
        "attempt_ended": _attempt_ended,
    }
    """Handlers for a session that was given up before the run was resumed."""
