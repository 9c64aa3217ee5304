"""A controller that starts, and connects to the run's nodes, while its front end plans and checks the run.

Logging in, and starting a Python on each node, is the longest part of a start across nodes. The front end
starts this program once its run file is valid, names the nodes on its standard input, and hands the run over
on the same pipe. If the pipe ends before that, the program ends; on nodes it leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.agent.processes.detached_process import DetachedProcess, start_detached
from torchdeck.agent.supervisor_process import set_process_title
from torchdeck.contract.layout import RunLayout
from torchdeck.launching.control.run_secrets import controller_environment

if TYPE_CHECKING:
    from torchdeck.config.schema import RunConfig
    from torchdeck.launching.control.connected_nodes import Streams
    from torchdeck.launching.control.run_secrets import RunSecrets

LIMIT = 30.0
"""Seconds for connecting to a node."""
END_LIMIT = 2.0
"""Seconds for a controller that is not wanted to be gone."""
AT_ONCE = 64
PROCESS_NAME = "torchdeck-ctl"
"""Process name in `ps -o comm`."""
MODULE = "torchdeck.launching.control.pre_connect"


class PreConnectingController:
    """The front end's side: a controller that has no run yet.

    Args:
        home: TORCHDECK_HOME.
        hidden: variables with secrets, which are left out of its environment.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, home: Path, hidden: frozenset[str]) -> None:
        self._hidden = hidden
        reading, self._pipe = os.pipe()
        os.set_blocking(self._pipe, False)
        argv = [sys.executable, "-P", "-m", MODULE]  # -P: see `launcher.start_controller`
        try:
            self._process = start_detached(
                argv, controller_environment(home, hidden), Path(os.devnull), reading
            )
        except OSError:
            os.close(self._pipe)
            raise
        finally:
            os.close(reading)

    def connect(self, nodes: Sequence[str]) -> None:
        """Name the nodes to connect to, once: none for a run on this machine."""
        self._write({"nodes": [*nodes]})

    def hand_over(
        self, layout: RunLayout, secrets: RunSecrets, logins: Mapping[str, Any]
    ) -> DetachedProcess | None:
        """Have it control a run whose directory is about to get its name; None: another must be started."""
        order = {"run": str(layout.root), "secrets": dict(secrets.values), "logins": logins}
        if not secrets.names <= self._hidden or self._process.exit_code() is not None:
            return None
        if not self._write(order):
            return None
        os.close(self._pipe)
        self._pipe = -1
        return self._process

    def close(self) -> None:
        """End it unless it has a run."""
        if self._pipe >= 0:
            self._process.end(END_LIMIT)
            os.close(self._pipe)
            self._pipe = -1

    def _write(self, value: Mapping[str, Any]) -> bool:
        """Whether the pipe took it, which never waits for the other end."""
        line = json.dumps(value).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError, BlockingIOError):
            return os.write(self._pipe, line) == len(line)
        return False


@contextmanager
def pre_connecting_controller(config: RunConfig, home: Path) -> Iterator[PreConnectingController | None]:
    """One for a run of `config`, which ends with the block unless it has its run; None if none can start."""
    controller = None
    with contextlib.suppress(OSError):
        controller = PreConnectingController(home, frozenset(config.secrets))
    try:
        yield controller
    finally:
        if controller is not None:
            controller.close()


def main() -> int:
    """The controller's side: connect, wait for the run, control it."""
    from torchdeck.launching.control.run_secrets import handed_over_from, keep_memory_private

    keep_memory_private()  # before it reads passwords and secrets
    with open(0, "rb", closefd=False) as pipe:
        streams = _connecting(_value(pipe.readline()).get("nodes", []))
        # imported only now: nodes log in meanwhile
        from torchdeck.launching.control.controller import gets_its_name, run_controller

        order = _value(pipe.readline())
    layout = RunLayout(Path(str(order.get("run", ""))))
    if "run" not in order or not gets_its_name(layout):
        return 0
    _log_to(layout.controller_log)
    set_process_title(f"torchdeck controller: {layout.root.name}", PROCESS_NAME)
    return run_controller(layout.root, handed_over_from(order), streams)


def _value(line: bytes) -> dict[str, Any]:
    """One line of the pipe; empty if it ended before or within it."""
    value = json.loads(line) if line.endswith(b"\n") else {}
    return value if isinstance(value, dict) else {}


def _connecting(names: Sequence[str]) -> Streams:
    """Begin to connect to each node. No one is asked for a login; a link that lacks one connects again."""
    if not names:
        return {}
    from torchdeck.launching.remote.dial import dial_of
    from torchdeck.nodes.background import in_background
    from torchdeck.nodes.connector import Connector
    from torchdeck.runs.home import torchdeck_home

    connector = Connector(torchdeck_home())
    dials = {name: dial_of(connector, name, connector.entry(name)) for name in names}
    calls = [partial(dial, LIMIT) for dial in dials.values()]
    return dict(zip(dials, in_background(calls, AT_ONCE, "connect"), strict=True))


def _log_to(log: Path) -> None:
    """Standard output and error go to `log` from now on; standard input is empty."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    written, nothing = os.open(log, flags, 0o600), os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for descriptor, place in ((nothing, 0), (written, 1), (written, 2)):
        os.dup2(descriptor, place)
    os.close(written)
    os.close(nothing)


if __name__ == "__main__":
    sys.exit(main())
