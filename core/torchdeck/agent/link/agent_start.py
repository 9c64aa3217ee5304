"""Starting this node's agent so that it outlives the link, and telling how it ended."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from torchdeck.agent.processes.detached_process import DetachedProcess
from torchdeck.agent.processes.forked_process import forked
from torchdeck.contract.atomic import read_json
from torchdeck.contract.layout import HOME_VARIABLE, RunLayout
from torchdeck.contract.processes import ProcessIdentity, without_run_variables

LOG_TAIL = 2_000
"""Bytes of the agent's log that are quoted when it does not start."""
INPUT_LIMIT = 64 * 1024
"""Bytes that a pipe takes without a reader; a user with very many open pipes gets smaller ones."""
PROCESS_NAME = "torchdeck-agent"


class AgentStart:
    """The agent that was started over this link, and whoever of the run is alive."""

    def __init__(self, layout: RunLayout, node: str, home: Path) -> None:
        self._layout = layout
        self._name = node
        self._home = home
        self._process: DetachedProcess | None = None

    def start(self, standard_input: bytes, life: int) -> int:
        """Start one; its pid.

        Args:
            standard_input: what it reads: secrets go this way alone.
            life: how often the run had finished when it was resumed.

        Raises:
            OSError: it cannot be started.
            ValueError: the input is too long.
        """
        node = self._layout.node(self._name)
        arguments = ["--run-dir", str(self._layout.root), "--node", self._name, "--life", str(life)]
        node.inbox.mkdir(mode=0o700, parents=True, exist_ok=True)
        reading = _pipe_with(standard_input)
        try:
            log = os.open(node.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                supervise = partial(_supervise, arguments, self._home)
                title = f"torchdeck agent: {self._layout.root.name}"
                self._process = forked(supervise, PROCESS_NAME, reading, log, title)
            finally:
                os.close(log)
        finally:
            os.close(reading)
        return self._process.pid

    def exit_code(self) -> int | None:
        """Of the one started here; None while it lives, or when there was none."""
        return None if self._process is None else self._process.exit_code()

    def starting(self) -> bool:
        """An agent lives, whether it was started here or not and whether it has journaled or not."""
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
        """Who of agent, holder and torchrun lives; the latter two of `attempt`."""
        files = None if attempt is None else self._layout.attempt(attempt).node(self._name).holder
        held = None if files is None else read_json(files)
        of = held.get if isinstance(held, dict) else lambda _name: None
        return {
            "agent": self.starting(),
            "holder": _is_alive(of("holder")),
            "torchrun": _is_alive(of("torchrun")),
        }


def load() -> None:
    """Import what an agent needs, for who has time before it starts one."""
    from torchdeck.agent import __main__  # noqa: F401 - loaded, not used
    from torchdeck.agent.lead import joining  # noqa: F401 - loaded, not used
    from torchdeck.agent.ranks import observation  # noqa: F401 - loaded, not used


def _supervise(arguments: list[str], home: Path) -> int:
    """Be an agent; its environment is what the login of the link has given."""
    kept = {**without_run_variables(os.environ), HOME_VARIABLE: str(home)}
    os.environ.clear()
    os.environ.update(kept)
    os.chdir("/")
    from torchdeck.agent.__main__ import main

    return main(arguments)


def _pipe_with(content: bytes) -> int:
    """The reading end of a pipe that holds `content` and ends after it."""
    if len(content) > INPUT_LIMIT:
        raise ValueError(f"the agent's input has {len(content)} bytes; {INPUT_LIMIT} are the most")
    reading, writing = os.pipe()
    os.set_blocking(writing, False)  # an agent that never reads must not hold up the link
    try:
        written = os.write(writing, content) if content else 0
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    if written != len(content):
        os.close(reading)
        raise OSError(f"a pipe does not take the {len(content)} bytes of the agent's input")
    return reading


def _is_alive(value: object) -> bool:
    identity = ProcessIdentity.from_json(value)
    return identity is not None and identity.is_alive()
