"""Importing paramiko without invoke, which it uses for `Match exec` in an ssh config and for nothing else.

That is half of what the import takes: asyncio, unittest and a YAML of its own. It would also read what is
typed into this process's terminal while the command runs, so the command is run without it.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import NamedTuple

INVOKE = "invoke"
EXEC_LIMIT = 20.0
"""Seconds for the command of a `Match exec`; ssh itself would wait for ever."""
_LOCK = threading.Lock()


def import_paramiko() -> None:
    """Import it, to be called before its first use; where it is not, the import only takes longer."""
    with _LOCK:
        if "paramiko" in sys.modules or INVOKE in sys.modules:
            return
        # an import of it fails for the moment, as where it is not installed, which paramiko allows for
        sys.modules[INVOKE] = None  # type: ignore[assignment]
        try:
            import paramiko  # noqa: F401
        finally:
            del sys.modules[INVOKE]


def run_commands() -> None:
    """For an ssh config with `Match exec`."""
    import paramiko.config

    paramiko.config.invoke = _Commands  # type: ignore[attr-defined, unused-ignore]


class _Ended(NamedTuple):
    ok: bool
    """Whether it has ended with 0."""


class _Commands:
    """What paramiko calls of invoke."""

    @staticmethod
    def run(command: str, **_options: object) -> _Ended:
        """Run a shell line, as ssh does: without input, its output thrown away. Raises ValueError."""
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
