"""Small costs that all pay: import torchdeck, log() outside a run, a rank's shell, --help, a list of runs."""

import logging
import os
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Sequence
from pathlib import Path

import torchdeck
from benchmarks.rows import Row
from support.values.histories import controller_journal, event, finished, running_run
from support.values.made_runs import line, make_run
from torchdeck.runs.run_list import RunList

REPEATS = 10
"""Of each the least counts: it is the one that other work on the machine disturbed least."""
CALLS = 10_000
JOURNAL = 150_000_000
"""Bytes."""
VALUES = {"loss": 1.0}
SHELL = Path(torchdeck.__file__).parent / "agent" / "processes" / "rank_holder.sh"


def run() -> list[Row]:
    """Rows against what Python and the shell have themselves."""
    return [_import(), _log(), _shell(), _help(), _list()]


def _import() -> Row:
    ours, peer = (_imported(name) for name in ("torchdeck", "logging"))
    return _row("import torchdeck", ours, "ms", peer, "import logging", goal=10.0)


def _imported(name: str) -> float:
    """Milliseconds between two checks."""
    code = f"import time; t = time.perf_counter(); import {name}; print(time.perf_counter() - t)"
    command = [sys.executable, "-c", code]
    return 1000 * min(
        float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(REPEATS)
    )


def _log() -> Row:
    logger = logging.getLogger("bench")

    def log() -> None:
        torchdeck.log(VALUES, step=1)

    def debug() -> None:
        logger.debug("%s %s", VALUES, 1)  # a call that finds that there is nothing to do

    ours, peer = (1e6 * min(timeit.repeat(call, number=CALLS, repeat=5)) / CALLS for call in (log, debug))
    return _row("log() outside a run", ours, "µs", peer, "logging.debug", goal=1.0)


def _shell() -> Row:
    """Processor time around a rank; `true` is part of both."""
    with tempfile.TemporaryDirectory() as folder:
        given = {"TORCHDECK_RUN_DIR": folder, "TORCHDECK_ATTEMPT": "1", "RANK": "0"}
        ours = _processor(["/bin/sh", str(SHELL), "true"], given)
        peer = _processor(["/bin/sh", "-c", "true; exit 0"], {})
    return _row("shell around a rank, processor time", ours, "ms", peer, "sh -c true", goal=50.0)


def _help() -> Row:
    ours, peer = (
        _processor([sys.executable, "-m", *words], {})
        for words in (["torchdeck.cli.main", "--help"], ["pip", "--help"])
    )
    return _row("torchdeck --help, processor time", ours, "ms", peer, "pip --help", goal=250.0)


def _processor(command: Sequence[str], given: dict[str, str]) -> float:
    """Milliseconds of the processor that the command and its children take."""
    found = []
    for _ in range(REPEATS):
        process = subprocess.Popen(command, env={**os.environ, **given}, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise RuntimeError(f"{command} ended with {process.returncode}")
        found.append(1000 * (used.ru_utime + used.ru_stime))
    return min(found)


def _list() -> Row:
    """The first look at a run whose controller has written very much; one that reads all lines as bytes."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        layout = make_run(home, controller_journal(), [*running_run(), finished("CANCELLED")])
        noise = line(event("request", id="1-stop-0", kind="stop"))
        with layout.journal.open("a") as file:
            file.write(noise * (JOURNAL // len(noise)))
        begun = time.process_time()
        seen = RunList(home).look()
        ours = time.process_time() - begun
        begun = time.process_time()
        with layout.journal.open("rb") as content:
            lines = sum(1 for _ in content)
        peer = time.process_time() - begun
    if len(seen.entries) != 1 or lines < JOURNAL // len(noise):
        raise RuntimeError("the run is not in the list")
    return _row("list of runs, 150 MB of journal, processor time", ours, "s", peer, "its lines", goal=1.0)


def _row(name: str, ours: float, unit: str, peer: float, peer_name: str, *, goal: float) -> Row:
    """The goal is for our figure: no one waits longer because a peer is slow."""
    return Row(
        name,
        ours,
        unit,
        peer,
        peer_name,
        ours / peer,
        goal,
        lower_is_better=True,
        goal_is_absolute=True,
    )
