"""The process of an early controller: loads what a controller of links needs, then waits for a run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from torchdeck.contract.layout import RunLayout
from torchdeck.launching.control.controller import run_controller
from torchdeck.launching.control.run_secrets import entrusted_from
from torchdeck.launching.private_memory import keep_memory_private
from torchdeck.runs.home import torchdeck_home

if TYPE_CHECKING:
    from torchdeck.launching.remote.early_links import EarlyLinks

NOTHING_TO_DO = 0


def main() -> int:
    """Control the run that is handed over; 0 where there is none."""
    from torchdeck.launching.remote import loaded  # noqa: F401 - while there is time
    from torchdeck.launching.remote.early_links import EarlyLinks

    keep_memory_private()  # before it is handed passwords and secrets
    told = open(0, "rb", closefd=False)  # noqa: SIM115 - of a copy, `sys.stdin` may be anything
    links = EarlyLinks(torchdeck_home())
    order = _order(told, links)
    if order is None:
        return NOTHING_TO_DO
    told.readline()
    layout = RunLayout(Path(str(order.get("run"))))
    if not layout.journal.exists():  # whoever made the run died before it was there
        return NOTHING_TO_DO
    _log_to(layout.controller_log)
    return run_controller(layout.root, entrusted_from(order), links)


def _order(told: BinaryIO, links: EarlyLinks) -> Mapping[str, Any] | None:
    """The run that is handed over; None where none is, or not all of it came.

    Before it, nodes may be named that let the front end in, to which links are begun. There is no time limit:
    whoever started this may be asked for a password, and the pipe ends with it.
    """
    while (line := told.readline()).endswith(b"\n"):
        value = json.loads(line)
        if not isinstance(value, dict):
            return None
        if "node" not in value:
            return value
        links.begin(str(value["node"]))
    return None


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
