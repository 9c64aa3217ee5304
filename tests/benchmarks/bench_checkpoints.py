"""What a save costs training: ours in the background and at once, torch.save by hand, DCP's own async_save.

One process of one model; the ways take turns, save after save, so that what else the machine does hits all of
them. Two figures each: how long the call held training up, and how much longer a window of steps that begins
with a save took than those without one right before and after it. The second counts the cores that a writer
takes away, too, so it needs a core that training leaves free, as training on GPUs does.
"""

import json
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.rows import Row

WORKER = Path(__file__).with_name("checkpoints_worker.py")
LIMIT = 900.0
"""Seconds; a loaded machine is slow, not broken."""
WANTED = 0.1
OTHERS = {
    "at once": "our synchronous save",
    "torch.save": "torch.save, fsync",
    "async thread": "DCP async_save, thread",
    "async process": "DCP async_save, process",
}


def run() -> list[Row]:
    """Seconds that one save costs; ratios are of pairs of saves that were next to each other in time."""
    done = subprocess.run(
        [sys.executable, str(WORKER)], capture_output=True, text=True, check=False, timeout=LIMIT
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    found: dict[str, dict[str, list[float]]] = json.loads(done.stdout.splitlines()[-1])
    told = {
        "stall": "call of a save in the background",
        "lost": "step time lost to a save in the background",
    }
    rows = [_row(name, found[kind], other) for kind, name in told.items() for other in OTHERS]
    late = statistics.median(found["late"]["background"])
    # nothing: what a save costs lies in the window that it is measured by
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
        wanted=WANTED if other == "at once" else None,
        lower_is_better=True,
    )
