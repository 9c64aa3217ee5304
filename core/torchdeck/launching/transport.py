"""The controller's access to a node: starting its agent and delivering requests."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from torchdeck.agent.attempt.handover import HandoverAsk
from torchdeck.agent.processes.detached_process import DetachedProcess, start_detached
from torchdeck.agent.supervisor_process import agent_argv
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import NodePlan
from torchdeck.contract.processes import ProcessIdentity, without_run_variables
from torchdeck.contract.waiting import wait_for
from torchdeck.launching.requests import Request, page_request

LINGER = 300.0
"""Seconds to wait for a node whose link is down at the end: its data of the run is not here yet."""
LOG_TAIL = 2_000
"""Bytes of the agent's log that are quoted when it does not start."""
ASK_LIMIT = 5.0
"""Seconds for an agent to return its bootstrap payload; it polls four times a second."""
ASK_TICK = 0.02


class Supervision(NamedTuple):
    """Current supervision of a node's part of a run."""

    agent: bool
    holder: bool


class Transport(Protocol):
    """One node, as the controller sees it."""

    node: str

    @property
    def unreached(self) -> str:
        """Return why the node is unreachable now; empty while it is reachable."""

    def supervision(
        self, agent: ProcessIdentity | None, holder: ProcessIdentity | None
    ) -> Supervision | None:
        """Return which of these processes of the node are alive; None while unknown."""

    def start_agent(self, handover: bytes) -> None:
        """Start an agent that outlives this process and reads `handover` on its standard input.

        Raises OSError if the node is unreachable, or the agent cannot be started there.
        """

    def agent_exit(self) -> int | None:
        """Return the exit code of the last agent started; None while it is alive, or if there was none."""

    def agent_is_starting(self) -> bool:
        """Return whether an agent started here is alive, even if it has not journaled yet."""

    def agent_log(self) -> str:
        """Return the end of the agent's log, for the message when it does not start."""

    def deliver(self, request: Request) -> None:
        """Deliver a request to the agent; idempotent. Raises OSError."""

    def kill(self, processes: Sequence[ProcessIdentity]) -> None:
        """Send SIGKILL to these processes of the node; those that are gone are skipped. Raises OSError."""

    def ask_handover(self) -> bytes:
        """Return the bootstrap payload of the node's live agent; secret. Raises OSError if it does not
        answer.
        """


class LocalTransport:
    """The node that the controller runs on: plain processes and files."""

    def __init__(self, layout: RunLayout, plan: NodePlan, shipped: Path) -> None:
        self.node = plan.name
        self._layout = layout
        self._files = layout.node(plan.name)
        self._interpreter = plan.interpreter
        self._shipped = shipped
        self._agent: DetachedProcess | None = None

    @property
    def unreached(self) -> str:
        """Return an empty string: this machine is always reachable."""
        return ""

    def supervision(
        self, agent: ProcessIdentity | None, holder: ProcessIdentity | None
    ) -> Supervision | None:
        return Supervision(*(found is not None and found.is_alive() for found in (agent, holder)))

    def start_agent(self, handover: bytes) -> None:
        self._files.inbox.mkdir(mode=0o700, parents=True, exist_ok=True)
        argv = agent_argv(self._interpreter, self._shipped / "torchdeck", self._layout.root, self.node)
        self._agent = start_detached(argv, without_run_variables(os.environ), self._files.log, handover)

    def agent_exit(self) -> int | None:
        return None if self._agent is None else self._agent.exit_code()

    def agent_is_starting(self) -> bool:
        return self._agent is not None and self._agent.exit_code() is None

    def agent_log(self) -> str:
        try:
            with self._files.log.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_TAIL))
                return file.read().decode("utf-8", "replace").strip()
        except OSError:
            return ""

    def deliver(self, request: Request) -> None:
        self._files.inbox.mkdir(mode=0o700, parents=True, exist_ok=True)
        page_request(self._files.inbox, request)

    def kill(self, processes: Sequence[ProcessIdentity]) -> None:
        for process in processes:
            process.send(signal.SIGKILL)

    def ask_handover(self) -> bytes:
        ask = HandoverAsk(self._files.inbox)
        try:
            line = wait_for(ask.read, ASK_LIMIT, ASK_TICK)
        finally:
            ask.close()
        if line is None:
            raise TimeoutError(f"it did not answer within {ASK_LIMIT:.0f} s")
        return line
