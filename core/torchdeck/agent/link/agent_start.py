"""Starting this node's agent so that it outlives the link, and telling how it ended."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from torchdeck.agent.processes.detached_process import DetachedProcess, start_detached
from torchdeck.agent.supervisor_process import agent_argv
from torchdeck.contract.atomic import read_json
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.processes import ProcessIdentity, without_run_variables

LOG_TAIL = 2_000
"""Bytes of the agent's log that are quoted when it does not start."""
PACKAGE = Path(__file__).resolve().parents[2]
"""`torchdeck` of the runtime bundle that serves the link."""


class AgentStart:
    """The agent that was started over this link, and whoever of the run is alive."""

    def __init__(self, layout: RunLayout, node: str, home: Path) -> None:
        self._layout = layout
        self._name = node
        self._home = home
        self._process: DetachedProcess | None = None

    def start(self, standard_input: bytes, session: int) -> int:
        """Start one; its pid.

        Args:
            standard_input: what it reads: secrets go this way alone.
            session: how often the run had finished when it was resumed.

        Raises:
            OSError: it cannot be started, or the input is too long.
        """
        node = self._layout.node(self._name)
        node.inbox.mkdir(mode=0o700, parents=True, exist_ok=True)
        argv = agent_argv(sys.executable, PACKAGE, self._layout.root, self._name, session)
        env = {**without_run_variables(os.environ), "TORCHDECK_HOME": str(self._home)}
        self._process = start_detached(argv, env, node.log, standard_input)
        return self._process.pid

    def exit_code(self) -> int | None:
        """Exit code of the one started here; None while it is alive, or if there was none."""
        return None if self._process is None else self._process.exit_code()

    def starting(self) -> bool:
        """Whether an agent is alive, wherever it was started and whether or not it has journaled."""
        if self._process is not None and self._process.exit_code() is None:
            return True
        return _is_alive(read_json(self._layout.node(self._name).lock))

    def log(self) -> bytes:
        """The end of its log."""
        try:
            with self._layout.node(self._name).log.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_TAIL))
                return file.read(LOG_TAIL)
        except OSError:
            return b""

    def alive(self, attempt: int | None) -> dict[str, bool]:
        """Return which of agent, shim and torchrun live; the latter two of `attempt`."""
        files = None if attempt is None else self._layout.attempt(attempt).node(self._name).holder
        held = None if files is None else read_json(files)
        of = held.get if isinstance(held, dict) else lambda _name: None
        return {
            "agent": self.starting(),
            "holder": _is_alive(of("holder")),
            "torchrun": _is_alive(of("torchrun")),
        }


def _is_alive(value: object) -> bool:
    identity = ProcessIdentity.from_json(value)
    return identity is not None and identity.is_alive()
