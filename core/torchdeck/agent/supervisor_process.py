"""Process name and title in `ps`, in place of the arguments. Linux."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path

NAME_LENGTH = 15
"""Bytes that Linux keeps of a process's name."""
_ARGUMENTS_BEGIN = 45
"""Field of /proc/PID/stat after the name: 48th of proc(5), with the end of the arguments after it."""


def set_process_name(name: str) -> None:
    """Show `name` in `ps -o comm`; 15 bytes at most."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_bytes(name.encode()[:NAME_LENGTH])


def set_process_title(title: str, name: str) -> None:
    """Show `title` as the command line of this process, cut to the room that its arguments have.

    Without it, Python that was sent over a connection shows its source there. Where the system does not allow
    it all stays as it was, as nothing depends on it.

    Args:
        title: for `ps -f`, in ASCII; empty: the arguments stay.
        name: for `ps -o comm`; 15 bytes at most.
    """
    set_process_name(name)
    with contextlib.suppress(OSError, ImportError, ValueError, IndexError):
        import ctypes  # some builds of Python lack it

        text = Path("/proc/self/stat").read_text()
        begin, end = map(int, text[text.rindex(")") + 2 :].split()[_ARGUMENTS_BEGIN : _ARGUMENTS_BEGIN + 2])
        # our own memory, as execve(2) laid it out; all that reads it copied it when Python started
        if title and 0 < begin < end:
            room = end - begin
            ctypes.memmove(begin, title.encode("ascii", "replace")[: room - 1].ljust(room, b"\0"), room)


# Standard error of a supervisor: a log file on a disk that may be full, which must not end its writer.


class LogStream(io.TextIOBase):
    """Stream that writes text to a descriptor at once, and drops what cannot be written."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, text: str) -> int:
        """Write text; always return `len(text)`."""
        with contextlib.suppress(OSError):
            os.write(self._descriptor, text.encode("utf-8", "backslashreplace"))
        return len(text)

    def fileno(self) -> int:
        return self._descriptor

    def writable(self) -> bool:
        return True


def log_to_standard_error() -> None:
    """Make all later output of this process unable to fail."""
    sys.stderr = LogStream(2)


PROCESS_NAME = "torchdeck-agent"
"""Process name in `ps -o comm`."""


def agent_argv(python: str, package: Path, run_dir: Path, node: str, session: int = 0) -> list[str]:
    """Starts an agent for a node of a run.

    Args:
        python: the node's interpreter.
        package: the folder `torchdeck` of the runtime bundle.
        run_dir: the run's directory on the node.
        node: its name in the plan.
        session: how often the run had finished when it was resumed.
    """
    main = package / "agent" / "__main__.py"
    return [python, "-I", "-B", str(main), "--run-dir", str(run_dir), "--node", node, "--life", str(session)]
