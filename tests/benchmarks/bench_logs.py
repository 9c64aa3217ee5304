"""`torchdeck runs logs` on a log of a gigabyte, next to `tail` and `cat`: whole commands, until their end."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.rows import Row
from support.values.made_runs import make_run

SIZE = 1 << 30
LINES_AT_ONCE = 20_000
ROUNDS = 5
SOON = 0.3
"""Seconds in which the last lines are wanted."""
COMMAND = [sys.executable, "-m", "torchdeck.cli.main", "runs", "logs", "latest"]


def run() -> list[Row]:
    """Rows for the last lines, and for all."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        layout = make_run(home, [], output={(1, 0, "stdout"): ""})
        log = layout.attempt(1).rank(0).stdout
        _write(log)
        environ = {**os.environ, "TORCHDECK_HOME": str(home)}
        last, tail = (
            _seconds(argv, environ) for argv in ([*COMMAND, "--tail", "10"], ["tail", "-n", "10", str(log)])
        )
        whole, cat = (_seconds(argv, environ) for argv in (COMMAND, ["cat", str(log)]))
    speed, peer = (SIZE / seconds / 1e6 for seconds in (whole, cat))
    return [
        Row(
            "last 10 lines of 1 GiB",
            last,
            "s",
            tail,
            "tail",
            last / tail,
            SOON,
            lower_is_better=True,
            goal_is_absolute=True,
        ),
        Row("all lines of 1 GiB", speed, "MB/s", peer, "cat", speed / peer, 100.0, goal_is_absolute=True),
    ]


def _write(log: Path) -> None:
    line = b"step %08d loss 2.3456 lr 0.0003 tokens/s 123456 grad norm 0.98\n"
    with log.open("wb") as file:
        first = 0
        while file.tell() < SIZE:
            file.write(b"".join(line % number for number in range(first, first + LINES_AT_ONCE)))
            first += LINES_AT_ONCE


def _seconds(argv: Sequence[str], environ: dict[str, str]) -> float:
    """Median time of a command whose output another process reads."""
    took = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        with subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE) as process:
            subprocess.run(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL, check=True)
        took.append(time.perf_counter() - begun)
        assert process.returncode == 0
    return statistics.median(took)
