"""The process of an early controller: loads what a controller of links needs, then waits for a run."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchdeck.launch.controller import run_controller
from torchdeck.launch.run_secrets import entrusted_from
from torchdeck.rundir.layout import RunLayout

NOTHING_TO_DO = 0


def main() -> int:
    """Control the run that is handed over; 0 where there is none."""
    gc.disable()  # all of it stays
    from torchdeck.launch.remote import loaded  # noqa: F401 - while there is time

    gc.enable()

    # no time limit: whoever started this may be asked for a password, and the pipe ends with it
    order = _order(sys.stdin.buffer.readline())
    if order is None:
        return NOTHING_TO_DO
    sys.stdin.buffer.readline()
    layout = RunLayout(Path(str(order.get("run"))))
    if not layout.journal.exists():  # whoever made the run died before it was there
        return NOTHING_TO_DO
    _log_to(layout.controller_log)
    return run_controller(layout.root, entrusted_from(order))


def _order(line: bytes) -> Mapping[str, Any] | None:
    """What is asked for; None where nothing is, or not all of it came."""
    if not line.endswith(b"\n"):
        return None
    value = json.loads(line)
    return value if isinstance(value, dict) else None


def _log_to(log: Path) -> None:
    """Standard output and error go to `log` from now on; standard input says nothing more."""
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for descriptor, place in ((nothing, 0), (written, 1), (written, 2)):
        os.dup2(descriptor, place)
    os.close(written)
    os.close(nothing)


if __name__ == "__main__":
    sys.exit(main())
