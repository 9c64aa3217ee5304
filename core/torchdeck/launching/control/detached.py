"""A controller that waits for its run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from torchdeck.agent.processes.detached_process import DetachedProcess, _spawn


def start_waiting(argv: Sequence[str], env: Mapping[str, str]) -> tuple[DetachedProcess, int]:
    """As `start_detached`, without a log; and the end of a pipe that it reads, which no other child has.

    Raises:
        OSError: it cannot be started.
    """
    reading, writing = os.pipe()
    try:
        waits = (os.POSIX_SPAWN_DUP2, reading, 0)
        return _spawn(argv, env, Path(os.devnull), waits), writing
    except OSError:
        os.close(writing)
        raise
    finally:
        os.close(reading)
