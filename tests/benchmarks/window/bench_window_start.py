"""The window's start: when it is first painted, and what memory it has then, beside a bare window of Qt's."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.rows import Row
from support.gui.desktop import desktop

WORKER = Path(__file__).parents[1] / "workers/window_start_worker.py"
STARTS = 7
FIRST_PAINT = 0.5
"""Seconds from the start of the process."""
MEMORY = 120.0
"""MB, of a million bytes."""


def run() -> list[Row]:
    """Warm starts without a screen, and on a screen of X where there is one to be had."""
    rows = _rows("offscreen", {"QT_QPA_PLATFORM": "offscreen"})
    if shutil.which("Xvfb") and shutil.which("openbox"):
        with desktop() as screen:
            rows += _rows("Xvfb", screen.environment)
    return rows


def _rows(where: str, screen: dict[str, str]) -> list[Row]:
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, **screen, "TORCHDECK_HOME": home}
        _start("all", env)  # warms the disk's cache
        found: dict[str, list[dict[str, Any]]] = {"first": [], "empty": [], "all": []}
        for _ in range(STARTS):
            for what, results in found.items():
                results.append(_start(what, env))
    seconds, memory = (
        {what: statistics.median(result[name] for result in results) for what, results in found.items()}
        for name in ("seconds", "megabytes")
    )
    return [
        _row(f"first paint ({where})", seconds, "first", "s", FIRST_PAINT),
        _row(f"memory at first paint ({where})", memory, "first", "MB", MEMORY),
        _row(f"all places made ({where})", seconds, "all", "s"),
        _row(f"memory with all places ({where})", memory, "all", "MB"),
    ]


def _row(name: str, values: dict[str, float], what: str, unit: str, wanted: float | None = None) -> Row:
    return Row(
        name=name,
        ours=values[what],
        peer=values["empty"],
        unit=unit,
        peer_name="a bare window of Qt",
        wanted=wanted,
        lower_is_better=True,
        goal_is_absolute=True,
    )


def _start(what: str, env: dict[str, str]) -> dict[str, Any]:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(WORKER), what], env=env, capture_output=True, text=True, timeout=60, check=True
    )
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[0])
    return {
        "seconds": said["time"] - began,
        "megabytes": said["bytes"] / 1e6,
        "imported": said["imported"],
    }
