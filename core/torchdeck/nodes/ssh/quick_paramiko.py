"""Import of paramiko without invoke, which it uses only for `Match exec` in an ssh config.

That is half of the import time: asyncio, unittest and a YAML of its own. It would also read what is
typed into this process's terminal while the command runs, so the command is run without it.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import NamedTuple

INVOKE = "invoke"
EXEC_LIMIT = 20.0
"""Timeout in seconds for the command of a `Match exec`; ssh itself would wait forever."""
_LOCK = threading.Lock()


def import_paramiko() -> None:
    """Import it, to be called before its first use; otherwise the import only takes longer."""
    with _LOCK:
        if "paramiko" in sys.modules or INVOKE in sys.modules:
            return
        # importing it fails temporarily, as if it were not installed, which paramiko supports
        sys.modules[INVOKE] = None  # type: ignore[assignment]
        try:
            import paramiko  # noqa: F401
        finally:
            del sys.modules[INVOKE]


def run_commands() -> None:
    """Enable commands for an ssh config with `Match exec`."""
    import paramiko.config

    paramiko.config.invoke = _Commands  # type: ignore[attr-defined, unused-ignore]


class _Ended(NamedTuple):
    ok: bool
    """Whether it exited with 0."""


class _Commands:
    """Subset of invoke that paramiko calls."""

    @staticmethod
    def run(command: str, **_options: object) -> _Ended:
        """Run a shell line, as ssh does: without input, its output discarded. Raises ValueError."""
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                timeout=EXEC_LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ValueError(
                f"the command of a `Match exec` ({command}) ran longer than {EXEC_LIMIT:g} s"
            ) from None
        except OSError as error:
            raise ValueError(f"the command of a `Match exec` cannot be started: {error.strerror}") from error
        return _Ended(done.returncode == 0)
