"""What `window_plots` measures without a screen, measured on a screen of X, where there is one to be had."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.rows import Row
from support.gui.desktop import desktop

HERE = Path(__file__)
LIMIT = 600.0
"""Seconds."""


def run() -> list[Row]:
    """The same rows; none without Xvfb and a window manager."""
    if not (shutil.which("Xvfb") and shutil.which("openbox")):
        return []
    with desktop() as screen:
        done = subprocess.run(
            [sys.executable, str(HERE)],
            env={**os.environ, **screen.environment, "PYTHONPATH": str(HERE.parents[2])},
            stdout=subprocess.PIPE,
            text=True,
            timeout=LIMIT,
            check=True,
        )
    rows = [Row(**fields) for fields in json.loads(done.stdout.splitlines()[-1])]
    return [dataclasses.replace(row, name=f"{row.name} (Xvfb)") for row in rows]


def _measure() -> None:
    """In a process of its own, as the screen is chosen once."""
    from benchmarks.window.bench_window_plots import run as measured

    print(json.dumps([dataclasses.asdict(row) for row in measured()]))


if __name__ == "__main__":
    _measure()
