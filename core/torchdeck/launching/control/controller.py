"""The controller: keeps an agent on every node until a shim does, forwards requests, decides nothing.

One per run, detached. It may die at any time; the run continues, and the next controller takes over from
there.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from torchdeck.agent.inbox import CONTROLLER
from torchdeck.agent.startup import session_of_run
from torchdeck.contract.atomic import read_json
from torchdeck.contract.journal import NewerFormatError, PatientJournalWriter
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.elastic import Elastic, Place
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.processes import ProcessIdentity, make_private
from torchdeck.contract.refusal import Refusal
from torchdeck.contract.waiting import wait_for
from torchdeck.launching.control.agent_watchdog import AgentUnavailableError, AgentWatchdog, Handovers
from torchdeck.launching.control.connected_nodes import ConnectedNodes, NodesNotKnownError, Streams
from torchdeck.launching.control.gang_token import GangToken
from torchdeck.launching.control.leader_watch import LeaderWatch
from torchdeck.launching.control.leaderless_nodes import LeaderlessNodes
from torchdeck.launching.control.lost_alert import send_lost_alert
from torchdeck.launching.control.run_secrets import HandedOver, keep_memory_private, read_handed_over
from torchdeck.launching.control.silent_agent import Silence, SilentAgent
from torchdeck.launching.epoch import ControllerEpoch, Fence, SupersededError
from torchdeck.launching.requests import STOP_NOW, asked_arguments, read_requests, write_request
from torchdeck.launching.run_files import RunFiles
from torchdeck.launching.runtime_bundle import ship
from torchdeck.launching.transport import LINGER, Transport
from torchdeck.runs.replay.history import RunHistory

TICK = 0.2
"""Seconds between two polls: the longest that a request waits. A poll costs a tenth of a millisecond."""
BEGIN_TICK = 0.01
"""The same until every node has an agent: each waits for what another has just reported."""
WATCH_TICK = 1.0
MADE_LIMIT = 5.0
"""Seconds for the directory of a new run to get its name, which is the next thing that the front end does."""


class Controller:
    """Work of one controller, one poll at a time."""

    def __init__(
        self,
        layout: RunLayout,
        nodes: ConnectedNodes,
        handovers: Handovers,
        journal: PatientJournalWriter,
        epoch: ControllerEpoch,
        plan: LaunchPlan,
    ) -> None:
        self._layout = layout
        self._nodes = nodes
        self._handovers = handovers
        self._journal = journal
        self._epoch = epoch
        self._plan = plan
        self._lead = nodes.transports[0]
        self._files = RunFiles(layout, [transport.node for transport in nodes.transports])
        self._keepers = {
            transport.node: AgentWatchdog(transport, partial(self._handover, transport))
            for transport in nodes.transports
        }
        self._session = session_of_run(layout)
        self._said = ""
        self._leaderless = LeaderlessNodes(layout, nodes, epoch, journal)
        self._elastic = Elastic.of_plan(plan)
        patience = plan.policy.node_grace
        names = tuple(transport.node for transport in nodes.transports)
        self._leader = LeaderWatch(layout, nodes, names, self._elastic, plan.policy, time.monotonic())
        self._silent_agent = SilentAgent(
            layout, self._lead, epoch, journal, Silence(patience, time.monotonic()), self._say_once
        )
        self._fence = Fence(nodes, epoch, journal)
        self._token = GangToken(nodes.transports, handovers, patience, self._say_once, journal.append)

    def step(self) -> bool:
        """Poll once; return False once the run and this controller are finished.

        Raises:
            SupersededError: a later controller has the run.
        """
        self._epoch.check()
        self._journal.catch_up()
        for text in self._nodes.look():
            _say(text, 0)
        history = self._files.read()
        if history.end is not None:
            return self._after_the_end(history)
        self._fence.look(history)
        for node in list(self._keepers):
            if not self._keep(node, history):
                return False
        self._forward()
        self._leaderless.forward(history)
        self._look_for_leader(history)
        return True

    def _look_for_leader(self, history: RunHistory) -> None:
        """Abandon the run if its leader node is lost; replace a silent agent that keeps it from stopping."""
        if not history.has_begun(self._lead.node):
            return  # a node never reached is abandoned by the agent's keeper
        unanswered = self._silent_agent.look(history, time.monotonic())
        lost = self._leader.look(history, time.monotonic(), unanswered)
        if lost is not None:
            with self._epoch.held():
                self._journal.append("lost", **lost)
            send_lost_alert(self._layout, self._plan, self._handovers.secrets, self._journal, lost)

    def _after_the_end(self, history: RunHistory) -> bool:
        """Return whether there is still work to do for nodes that do not know of the end.

        A lost node is waited for until it answers, however long that takes: the run may still be alive there.
        """
        self._fence.look(history)
        return self._leaderless.go_on(history, time.monotonic()) or bool(history.unfenced)

    def check(self) -> None:
        """Check that this controller still has the run. Raises SupersededError."""
        self._epoch.check()

    @property
    def linger(self) -> float:
        """Return the seconds to wait for nodes to return after the end; a lost leader was waited for
        already.
        """
        history = self._files.history
        return LINGER if history.is_begun and not history.is_given_up else 0.0

    @property
    def pause(self) -> float:
        """Return the seconds until the next poll."""
        if self._files.history.is_given_up:
            return WATCH_TICK  # possibly for days
        begun = all(keeper.begun for keeper in self._keepers.values())
        return TICK if begun or self._files.history.end is not None else BEGIN_TICK

    def _keep(self, node: str, history: RunHistory) -> bool:
        """Maintain one node's agent; return False if the run cannot continue without it."""
        try:
            with self._epoch.held():
                self._keepers[node].look(history)
            return True
        except AgentUnavailableError as error:
            return self._give_up(error)

    def _give_up(self, error: AgentUnavailableError) -> bool:
        """Handle a node that cannot take part: without the leader the run is over, otherwise the gang is told
        to end.
        """
        self._journal.append("transport_failed", node=error.node, why=str(error))
        self._keepers.pop(error.node, None)
        if error.node == self._lead.node:
            return False
        if self._elastic.without([Place(error.node, None)]) is None:
            write_request(self._layout, STOP_NOW, CONTROLLER, str(error))
        return True  # the leader continues without it after launch.node_grace

    def _handover(self, transport: Transport) -> bytes | None:
        """Return the bootstrap payload for an agent started now; None while it must wait for the leader or
        the code.
        """
        refused = self._nodes.code_refused(transport.node)
        if refused:
            raise AgentUnavailableError(transport.node, refused)
        if not self._nodes.has_code(transport.node) or self._files.has_left(transport.node, self._session):
            return None
        if self._files.gave_up_leader(transport.node) and not self._leads():
            return None
        stranger = self._handovers.is_stranger(self._files.listening)
        if stranger and not self._token.look(self._files.history, transport.node):
            return None
        return self._handovers.line(transport.node, self._files.listening)

    def _leads(self) -> bool:
        """Return whether the leader is known to be alive: a node that gave up on it may hear from it
        again.
        """
        return self._nodes.lives(self._lead.node, self._files.history) is True

    def _forward(self) -> None:
        for request in read_requests(self._layout.control, frozenset(self._files.forwarded)):
            with self._epoch.held():
                # node 0 leads the gang: it alone decides
                try:
                    self._lead.deliver(request)
                except OSError as error:
                    self._say_once(f"request {request.id} cannot be delivered yet: {error}")
                    return
                self._journal.append("request", id=request.id, kind=request.kind, origin=request.origin)
                self._files.forwarded.add(request.id)

    def _say_once(self, text: str) -> None:
        if text != self._said:
            self._said = text
            _say(text, 1)


def run_controller(
    run_dir: Path, handed_over: HandedOver | None = None, streams: Streams | None = None
) -> int:
    """Control the run in `run_dir` until it is over; 0, or 3 when it cannot be controlled.

    Args:
        run_dir: the run's directory.
        handed_over: what it was handed; default: read from standard input.
        streams: node → its connection, on its way.
    """
    make_private()
    keep_memory_private()  # before it reads passwords and secrets
    layout = RunLayout(run_dir.absolute())
    if not gets_its_name(layout):
        return _say(f"there is no run in {run_dir}: its front end ended before it was made", 0)
    try:
        plan = LaunchPlan.from_json(read_json(layout.plan))
        identity = ProcessIdentity.of(os.getpid())
        files = RunFiles(layout, [node.name for node in plan.all_nodes])
        if not files.read().needs_controller:
            return _say(f"run {run_dir.name} is over; `torchdeck runs show {run_dir.name}` says how", 0)
        shipped = _shipped(layout, files.history)
        epoch = ControllerEpoch(layout.controller_lock, identity) if identity else None
    except (Refusal, OSError) as error:
        return _say(f"{run_dir} cannot be controlled: {error}", 3)
    if epoch is None or identity is None:
        return _say(f"{run_dir} cannot be controlled: /proc does not say which process this is", 3)
    handed_over = read_handed_over() if handed_over is None else handed_over
    with PatientJournalWriter(layout.journal) as journal:
        journal.append("controller_started", durable=False, identity=identity.to_json(), epoch=epoch.number)
        try:
            nodes = ConnectedNodes(layout, plan, shipped, handed_over.logins, streams)
        except NodesNotKnownError as error:
            journal.append("transport_failed", node=plan.nodes[0].name, why=str(error))
            return _say(str(error), 3)
        nodes.start()
        handovers = Handovers(plan, handed_over.secrets, asked_arguments(layout))
        controller = Controller(layout, nodes, handovers, journal, epoch, plan)
        return _control(controller, nodes, journal, files)


def gets_its_name(layout: RunLayout) -> bool:
    """Whether the run's directory is there: it gets its name just after its first controller was started."""
    return wait_for(layout.root.is_dir, MADE_LIMIT, BEGIN_TICK)


def _control(
    controller: Controller, nodes: ConnectedNodes, journal: PatientJournalWriter, files: RunFiles
) -> int:
    try:
        while controller.step():
            time.sleep(controller.pause)
        missing = nodes.close(controller.check, controller.linger)
    except SupersededError as error:
        by = error.by.to_json() if error.by is not None else None
        journal.append("superseded", by=by)
        nodes.let_go()
        return _watch(files, by)
    except NewerFormatError as error:
        nodes.let_go()
        return _say(f"the run continues without this controller: {error}", 3)
    except KeyboardInterrupt:
        return _say("the controller ends; the run continues", 130)
    if missing:
        journal.append("not_heard_of", nodes=missing)
    journal.append("controller_ended")
    return 0


def _watch(files: RunFiles, by: Mapping[str, object] | None) -> int:
    """Only watch after another controller took the run, until the run is over or no controller is left."""
    pid = by.get("pid") if by is not None else None
    _say(f"another controller (pid {pid}) controls this run now; watching only", 0)
    while True:
        history = files.read()
        if history.end is not None:
            return _say(f"the run is over: {history.end.fields.get('state')}", 0)
        known = (history.controller, *history.agents.values(), *history.holders.values())
        if not any(identity is not None and identity.is_alive() for identity in known):
            return _say("no process of the run is alive any more", 0)
        time.sleep(WATCH_TICK)


def _shipped(layout: RunLayout, history: RunHistory) -> Path:
    """Return the folder with the agent that the run was started with; this version's own if unknown."""
    named = history.created.fields.get("shipped") if history.created is not None else None
    return Path(named) if isinstance(named, str) and named else ship(layout.home.root)


def _say(text: str, code: int) -> int:
    with contextlib.suppress(OSError):  # its log is on a disk that may be full
        print(f"torchdeck: {text}", file=sys.stderr if code else sys.stdout, flush=True)
    return code


def main() -> int:
    """Control the run whose directory is the only argument; return the exit code of `run_controller`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a log without UTF-8 gets an escape, where it would otherwise be a traceback
            stream.reconfigure(errors="backslashreplace")
    return run_controller(Path(sys.argv[1]))


if __name__ == "__main__":
    sys.exit(main())
