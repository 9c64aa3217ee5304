"""The controller: keeps an agent on every node until a holder does, forwards requests, decides nothing.

One per run, detached. It may die at any time; the run goes on, and the next one takes over where it was.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from torchdeck.launch.epoch import ControllerEpoch, SupersededError
from torchdeck.launch.requests import read_requests
from torchdeck.launch.transport import LocalTransport, Transport
from torchdeck.plan.launch_plan import LaunchPlan, PlanFormatError
from torchdeck.rundir.atomic import read_json
from torchdeck.rundir.journal import JournalReader, NewerFormatError, PatientJournalWriter
from torchdeck.rundir.layout import RunLayout
from torchdeck.rundir.processes import ProcessIdentity
from torchdeck.runs.history import RunHistory

TICK = 0.2
"""Seconds between two looks: what a request waits at most. A look costs a tenth of a millisecond."""
WATCH_TICK = 1.0
MAX_STARTS = 5
"""Agents in a row that may end before there is a holder."""
FIRST_DELAY = 0.2
"""Seconds before an agent is started again; doubles each time."""


class AgentUnavailableError(Exception):
    """No agent can be kept on a node; the message says what it said last."""


class RunFiles:
    """The run's journals, read as they grow."""

    def __init__(self, layout: RunLayout, nodes: Sequence[str]) -> None:
        self.history = RunHistory()
        self.forwarded: set[str] = set()
        self._journal = JournalReader(layout.journal)
        self._nodes = {node: JournalReader(layout.node(node).journal) for node in nodes}

    def read(self) -> RunHistory:
        """The history as of now. Raises NewerFormatError."""
        for event in self._journal.read_new():
            self.history.controller_event(event)
            if event.name == "request":
                self.forwarded.add(str(event.fields.get("id")))
        for node, reader in self._nodes.items():
            for event in reader.read_new():
                self.history.node_event(node, event)
        return self.history


class AgentKeeper:
    """Sees to it that a node has an agent, or a holder that keeps one."""

    def __init__(self, transport: Transport, clock: Callable[[], float] = time.monotonic) -> None:
        self._transport = transport
        self._clock = clock
        self._starts = 0
        self._due = 0.0

    def look(self, history: RunHistory) -> bool:
        """Start an agent if one is missing; True when it did.

        Raises:
            AgentUnavailableError: too many in a row have ended.
        """
        node = self._transport.node
        agent, holder = history.agents.get(node), history.holders.get(node)
        if holder is not None and holder.is_alive():
            self._starts = 0  # an agent got as far as that, and the holder keeps the next ones
            return False
        if self._transport.agent_is_starting() or (agent is not None and agent.is_alive()):
            return False
        if self._clock() < self._due:
            return False
        if self._starts >= MAX_STARTS:
            raise AgentUnavailableError(self._story())
        self._due = self._clock() + FIRST_DELAY * 2**self._starts
        self._starts += 1
        try:
            self._transport.start_agent()
        except OSError as error:
            raise AgentUnavailableError(f"the agent on {node} cannot be started: {error}") from error
        return True

    def _story(self) -> str:
        log = self._transport.agent_log().splitlines()
        last = log[-1] if log else "it wrote nothing"
        return (
            f"the agent on {self._transport.node} ended {MAX_STARTS} times before it had started the ranks "
            f"(last exit code {self._transport.agent_exit()}): {last}"
        )


class Controller:
    """What one controller does, one look at a time."""

    def __init__(
        self,
        layout: RunLayout,
        transports: Sequence[Transport],
        journal: PatientJournalWriter,
        epoch: ControllerEpoch,
    ) -> None:
        self._layout = layout
        self._transports = transports
        self._journal = journal
        self._epoch = epoch
        self._keepers = [AgentKeeper(transport) for transport in transports]
        self._files = RunFiles(layout, [transport.node for transport in transports])
        self._said = ""

    def step(self) -> bool:
        """One look; False once the run is over and this controller with it.

        Raises:
            SupersededError: a later controller has the run.
        """
        self._epoch.check()
        self._journal.catch_up()
        history = self._files.read()
        if history.finished is not None:
            return False
        try:
            for keeper in self._keepers:
                with self._epoch.held():
                    keeper.look(history)
            self._forward()
        except AgentUnavailableError as error:
            self._journal.append("transport_failed", node=self._transports[0].node, why=str(error))
            return False
        return True

    def _forward(self) -> None:
        for request in read_requests(self._layout.control, frozenset(self._files.forwarded)):
            with self._epoch.held():
                # node 0 leads the gang: it alone decides
                try:
                    self._transports[0].deliver(request)
                except OSError as error:
                    self._say_once(f"request {request.id} cannot be handed over yet: {error}")
                    return
                self._journal.append("request", id=request.id, kind=request.kind, origin=request.origin)
                self._files.forwarded.add(request.id)

    def _say_once(self, text: str) -> None:
        if text != self._said:
            self._said = text
            _say(text, 1)


def run_controller(run_dir: Path) -> int:
    """Control the run in `run_dir` until it is over; 0, or 3 when it cannot be controlled."""
    os.umask(0o077)
    layout = RunLayout(run_dir.absolute())
    try:
        plan = LaunchPlan.from_json(read_json(layout.plan))
        identity = ProcessIdentity.of(os.getpid())
        files = RunFiles(layout, [node.name for node in plan.nodes])
        if files.read().finished is not None:
            return _say(f"run {run_dir.name} is over; `torchdeck runs show {run_dir.name}` says how", 0)
        shipped = _shipped(files.history)
        epoch = ControllerEpoch(layout.controller_lock, identity) if identity else None
    except (PlanFormatError, NewerFormatError, OSError) as error:
        return _say(f"{run_dir} cannot be controlled: {error}", 3)
    if epoch is None or identity is None or shipped is None:
        return _say(f"{run_dir} cannot be controlled: its journal does not say how it was created", 3)
    transports = [LocalTransport(layout, node, shipped) for node in plan.nodes]
    with PatientJournalWriter(layout.journal) as journal:
        journal.append("controller_started", durable=False, identity=identity.to_json(), epoch=epoch.number)
        return _control(Controller(layout, transports, journal, epoch), journal, files)


def _control(controller: Controller, journal: PatientJournalWriter, files: RunFiles) -> int:
    try:
        while controller.step():
            time.sleep(TICK)
    except SupersededError as error:
        by = error.by.to_json() if error.by is not None else None
        journal.append("superseded", by=by)
        return _watch(files, by)
    except KeyboardInterrupt:
        return _say("the controller ends; the run goes on", 130)
    journal.append("controller_ended")
    return 0


def _watch(files: RunFiles, by: Mapping[str, object] | None) -> int:
    """After another controller took the run: only look on, until it is over or nobody is left."""
    pid = by.get("pid") if by is not None else None
    _say(f"another controller (pid {pid}) has this run now; watching only", 0)
    while True:
        history = files.read()
        if history.finished is not None:
            return _say(f"the run is over: {history.finished.fields.get('state')}", 0)
        known = (history.controller, *history.agents.values(), *history.holders.values())
        if not any(identity is not None and identity.is_alive() for identity in known):
            return _say("nothing of the run is alive any more", 0)
        time.sleep(WATCH_TICK)


def _shipped(history: RunHistory) -> Path | None:
    """The folder with the agent that the run was started with."""
    named = history.created.fields.get("shipped") if history.created is not None else None
    return Path(named) if isinstance(named, str) and named else None


def _say(text: str, code: int) -> int:
    with contextlib.suppress(OSError):  # its log lies on a disk that may be full
        print(f"torchdeck: {text}", file=sys.stderr if code else sys.stdout, flush=True)
    return code
