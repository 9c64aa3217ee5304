"""One call of py-spy, which reads the stacks of a process that does not cooperate."""

from __future__ import annotations

import contextlib
import tempfile

from torchdeck.agent.doctor.evidence import Frame, from_py_spy
from torchdeck.agent.processes.child_process import ChildProcess
from torchdeck.contract.bounded_json import JsonError, parse_json

LIMIT = 8.0
"""Seconds; it reads the symbols of every loaded library first."""
_MOST_BYTES = 4 << 20


class PySpy:
    """A running `py-spy dump`. Its output is a file: a full pipe would block it."""

    def __init__(self, program: str, pid: int) -> None:
        """Start it.

        Raises:
            OSError: it cannot be started.
        """
        self._pid = pid
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        words = [program, "dump", "--json", "--nonblocking", "--pid", str(pid)]
        try:
            self._process = ChildProcess(words, stdout=self._output)
        except OSError:
            self._output.close()
            raise

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.exit_code() is None

    def frames(self) -> tuple[Frame, ...]:
        """Return the main thread's frames; empty if its output is not what it should be."""
        with contextlib.suppress(JsonError, OSError):
            self._output.seek(0)
            return from_py_spy(
                parse_json(self._output.read(_MOST_BYTES) or b"null", limit=_MOST_BYTES), self._pid
            )
        return ()

    def close(self) -> None:
        """End it."""
        self._process.end()
        self._output.close()
