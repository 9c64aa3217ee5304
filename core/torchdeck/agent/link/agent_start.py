"""Starting this node's agent so that it outlives the link, and telling how it ended."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from torchdeck.agent.processes.detached_process import DetachedProcess, start_detached
from torchdeck.agent.supervisor_process import PREPARED, agent_argv
from torchdeck.contract.atomic import read_json
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.processes import ProcessIdentity, without_run_variables

LOG_TAIL = 2_000
"""Bytes of the agent's log that are quoted when it does not start."""
END_LIMIT = 2.0
"""Seconds for an agent that is not wanted to be gone."""
PACKAGE = Path(__file__).resolve().parents[2]
"""`torchdeck` of the runtime bundle that serves the link."""


class AgentStart:
    """The agent that was started over this link, and whoever of the run is alive."""

    def __init__(self, layout: RunLayout, node: str, home: Path) -> None:
        self._layout = layout
        self._name = node
        self._home = home
        self._process: DetachedProcess | None = None
        self._pipe = -1
        """Standard input of an agent that waits for its bootstrap payload; -1: none waits."""

    def prepare(self, life: int) -> None:
        """Start one that waits for its bootstrap payload, which `start` gives it; once. Raises OSError."""
        if self._pipe >= 0:
            return
        reading, writing = os.pipe()
        try:
            self._process = self._started(reading, life, PREPARED)
        except OSError:
            os.close(writing)
            raise
        finally:
            os.close(reading)
        self._pipe = writing

    def close(self) -> None:
        """End the one that waits."""
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
            if self._process is not None:
                self._process.end(END_LIMIT)

    def start(self, standard_input: bytes, life: int) -> int:
        """Start one, unless one waits; its pid.

        Args:
            standard_input: what it reads: secrets go this way alone.
            life: how often the run had finished when it was resumed.

        Raises:
            OSError: it cannot be started, or the input is too long.
        """
        if self._process is not None and self._hands_over(standard_input):
            return self._process.pid
        self._process = self._started(standard_input, life)
        return self._process.pid

    def _hands_over(self, line: bytes) -> bool:
        """Whether one waits and has been given `line`; one that does not take it is ended."""
        if self._pipe < 0:
            return False
        os.set_blocking(self._pipe, False)  # a pipe holds more than a controller sends
        with contextlib.suppress(BrokenPipeError, BlockingIOError):
            if line and os.write(self._pipe, line) == len(line):
                os.close(self._pipe)
                self._pipe = -1
                return True
        self.close()
        return False

    def _started(self, standard_input: bytes | int, life: int, *options: str) -> DetachedProcess:
        node = self._layout.node(self._name)
        node.inbox.mkdir(mode=0o700, parents=True, exist_ok=True)
        argv = agent_argv(sys.executable, PACKAGE, self._layout.root, self._name, life)
        env = {**without_run_variables(os.environ), "TORCHDECK_HOME": str(self._home)}
        return start_detached([*argv, *options], env, node.log, standard_input)

    def exit_code(self) -> int | None:
        """Exit code of the one started here; None while it lives, or if there was none."""
        return None if self._process is None else self._process.exit_code()

    def starting(self) -> bool:
        """An agent lives, whether it was started here or not and whether it has journaled or not.

        One that waits for its bootstrap payload has not started.
        """
        if self._pipe < 0 and self._process is not None and self._process.exit_code() is None:
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
