"""Controllers that were started before their run was there, as the machine has them."""

from __future__ import annotations

from pathlib import Path

from support.waiting import wait_until
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.launching.control.early_controller import PROCESS_NAME

MODULE = "torchdeck.launching.control.waiting_controller"


def early_ones(home: Path) -> list[ProcessIdentity]:
    """Those of this home that live, whether they wait or have a run by now."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            name = (entry / "comm").read_text().strip()
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        ours = (
            MODULE.encode() in words or name == PROCESS_NAME
        )  # it is another program, or a copy of the front end
        if ours and f"TORCHDECK_HOME={home}\0".encode() in environment:
            found.append(ProcessIdentity.of(int(entry.name)))
    return [identity for identity in found if identity is not None]


def wait_early(home: Path) -> ProcessIdentity:
    """The first of them, once it is there."""
    return wait_until(lambda: early_ones(home), 30, "an early controller")[0]


def wait_no_early(home: Path) -> None:
    """Until none is left."""
    wait_until(lambda: not early_ones(home), 30, "the early controller to be gone")
