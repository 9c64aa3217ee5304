"""Starting this node's agent so that it outlives the link, and telling how it ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from torchdeck.rundir.atomic import read_json
from torchdeck.rundir.layout import RunLayout
from torchdeck.rundir.processes import ProcessIdentity, without_run_variables

LOG_TAIL = 2_000
"""Bytes of the agent's log that are quoted when it does not start."""
_MAIN = Path(__file__).resolve().parents[1] / "__main__.py"
INPUT_LIMIT = 64 * 1024
"""Bytes that a pipe takes without a reader; a user with very many open pipes gets smaller ones."""


class AgentStart:
    """The agent that was started over this link, and whoever of the run is alive."""

    def __init__(self, layout: RunLayout, node: str, home: Path) -> None:
        self._layout = layout
        self._name = node
        self._home = home
        self._process: subprocess.Popen[bytes] | None = None
        self._prepared: tuple[int, int] | None = None
        """Life and the writing end of standard input, of one that waits for what it is handed."""

    def prepare(self, life: int) -> int:
        """Start one that loads itself and waits for what it is handed by `start`; it ends with this process.

        Args:
            life: as `start` is going to be told.

        Returns:
            Its pid; 0 where an agent lives already.

        Raises:
            OSError: it cannot be started.
        """
        if self._waits() or self.starting():
            return 0
        self._forget_prepared()
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        try:
            self._process = self._started(reading, life, "--waits")
        except OSError:
            os.close(writing)
            raise
        self._prepared = (life, writing)
        return self._process.pid

    def start(self, standard_input: bytes, life: int) -> int:
        """Start one, or let the one that was prepared begin; its pid.

        Args:
            standard_input: what it reads: secrets go this way alone.
            life: how often the run had finished when it was resumed.

        Raises:
            OSError: it cannot be started.
            ValueError: the input is too long.
        """
        waiting = self._process if self._waits() else None
        handed = self._handed(standard_input, life)
        if waiting is not None and handed:
            return waiting.pid
        if waiting is not None:  # it cannot be handed anything any more
            waiting.kill()
            waiting.wait()
        self._process = self._started(_pipe_with(standard_input), life)
        return self._process.pid

    def _waits(self) -> bool:
        """One was prepared, lives, and was handed nothing yet."""
        return self._prepared is not None and self._process is not None and self._process.poll() is None

    def _forget_prepared(self) -> None:
        """Of one that ended before it was handed anything."""
        if self._prepared is not None:
            os.close(self._prepared[1])
            self._prepared = None

    def _handed(self, standard_input: bytes, life: int) -> bool:
        """Hand it to the one that was prepared; False where that is not possible, and none is from now on."""
        if self._prepared is None:
            return False
        (expected, writing), self._prepared = self._prepared, None
        try:
            if life == expected and standard_input and len(standard_input) <= INPUT_LIMIT:
                return os.write(writing, standard_input) == len(standard_input)
        except OSError:
            return False
        finally:
            os.close(writing)
        return False

    def _started(self, reading: int, life: int, *options: str) -> subprocess.Popen[bytes]:
        """An agent that reads `reading`, which is closed here."""
        node = self._layout.node(self._name)
        argv = [sys.executable, "-I", "-B", str(_MAIN), "--run-dir", str(self._layout.root)]
        argv += ["--node", self._name, "--life", str(life), *options]
        environ = {**without_run_variables(os.environ), "TORCHDECK_HOME": str(self._home)}
        try:
            node.inbox.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(os.open(node.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:  # noqa: PTH123
                return subprocess.Popen(
                    argv,
                    stdin=reading,
                    stdout=log,
                    stderr=log,
                    env=environ,
                    cwd="/",
                    start_new_session=True,
                    restore_signals=True,
                )
        finally:
            os.close(reading)

    def exit_code(self) -> int | None:
        """Of the one started here; None while it lives, or when there was none."""
        return None if self._process is None else self._process.poll()

    def starting(self) -> bool:
        """An agent lives, whether it was started here or not and whether it has journaled or not.

        One that waits for what it is handed is none yet.
        """
        if self._waits():
            return False
        if self._process is not None and self._process.poll() is None:
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
