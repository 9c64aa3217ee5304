"""What saving and restoring cost: ours, torch.save by hand and torch.distributed.checkpoint (DCP).

One process of one model; the ways take turns, save after save, so that what else the machine does hits all of
them. In training, two figures each: how long the call held training up, and how much longer a window of steps
that begins with a save took than those without one right before and after it. The second counts the cores
that a writer takes away, too, so it needs a core that training leaves free, as training on GPUs does.

Without training, seconds and seconds of CPU of a save to disk, and of a restore of it from the page cache.
Ours hash every byte with SHA-256, the others hash nothing.
"""

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.rows import Row

WORKER = Path(__file__).parent / "workers/checkpoints_worker.py"
LIMIT = 900.0
"""Seconds; a loaded machine is slow, not broken."""
WANTED_IN_BACKGROUND = 1.0
WANTED = 1.1
OTHERS = {
    "at once": "our synchronous save",
    "torch.save": "torch.save, fsync",
    "async thread": "DCP async_save, thread",
    "async process": "DCP async_save, process",
}
SAVES = {"DCP": "DCP save", "torch": "torch.save, fsync"}
RESTORES = {
    "DCP": "DCP, get_ to set_state_dict",
    "DCP in place": "DCP load into given state",
    "torch": "torch.load",
}


def run() -> list[Row]:
    """Seconds that one save costs; ratios are of pairs of saves that were next to each other in time."""
    done = subprocess.run(
        [sys.executable, str(WORKER)], capture_output=True, text=True, check=False, timeout=LIMIT
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    found: dict[str, dict[str, list[Any]]] = json.loads(done.stdout.splitlines()[-1])
    told = {
        "stall": "call of a save in the background",
        "lost": "step time lost to a save in the background",
    }
    rows = [_row(name, found[kind], other) for kind, name in told.items() for other in OTHERS]
    late = statistics.median(found["late"]["background"])
    # nothing: what a save costs lies in the window that it is measured by
    rows += [
        _whole(name, found[kind], other, others, cpu=cpu)
        for kind, name, others in (
            ("save", "synchronous save", SAVES),
            ("restore", "restore into a new training", RESTORES),
        )
        for cpu in (False, True)
        for other in others
    ]
    return [*rows, Row("background save that outlasts its window", late, "s", peer_name="")]


def _row(name: str, seconds: dict[str, list[float]], other: str) -> Row:
    ours, theirs = seconds["background"], seconds[other]
    return Row(
        name=name,
        ours=statistics.median(ours),
        unit="s",
        peer=statistics.median(theirs),
        peer_name=OTHERS[other],
        ratio=statistics.median(one / two for one, two in zip(ours, theirs, strict=True)),
        wanted=WANTED_IN_BACKGROUND if other == "async thread" else None,
        lower_is_better=True,
    )


def _whole(
    name: str, measured: dict[str, list[Any]], other: str, others: dict[str, str], *, cpu: bool
) -> Row:
    """Seconds of a call, or of the CPU in it."""
    ours, theirs = ([each[cpu] for each in measured[way]] for way in ("ours", other))
    return Row(
        name=f"{name}, CPU" if cpu else name,
        ours=statistics.median(ours),
        unit="s",
        peer=statistics.median(theirs),
        peer_name=others[other],
        ratio=statistics.median(one / two for one, two in zip(ours, theirs, strict=True)),
        wanted=WANTED if other.startswith("DCP") and not cpu else None,
        lower_is_better=True,
    )
