"""`kill -9` at any moment loses no row whose log() returned. Real processes."""

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.values.metrics import opened, rank_folder

pytestmark = pytest.mark.processes

KILLS = 20
LOGGER = """
import os, sys, torchdeck
step = 0
while True:
    torchdeck.log({"loss": 1.0 / (step + 1), "lr": 0.5}, step=step)
    if step % 7 == 0:
        torchdeck.log({"validation_loss": float(step)}, step=step)
    os.write(1, b"%d\\n" % step)  # acknowledged: log() has returned
    step += 1
"""


def kill_after(run: Path, attempt: int, delay: float) -> int:
    """Log in a process until it is killed; the last acknowledged step."""
    variables = {"TORCHDECK_RUN_DIR": str(run), "TORCHDECK_ATTEMPT": str(attempt), "RANK": "0"}
    process = subprocess.Popen(
        [sys.executable, "-c", LOGGER], stdout=subprocess.PIPE, env={**os.environ, **variables}
    )
    assert process.stdout is not None
    said = b""
    begun, limit = None, time.monotonic() + 60
    while begun is None or time.monotonic() < begun + delay:
        assert time.monotonic() < limit, "waited 60 s without success for the first acknowledged step"
        if select.select([process.stdout], [], [], 0.001)[0]:
            said += os.read(process.stdout.fileno(), 65536)
            begun = begun or time.monotonic()
    process.send_signal(signal.SIGKILL)
    said += process.stdout.read()
    process.stdout.close()
    assert process.wait(timeout=30) == -signal.SIGKILL
    return int(said[: said.rindex(b"\n")].splitlines()[-1])


def test_kill_loses_no_acknowledged_row(tmp_path: Path) -> None:
    """After SIGKILL at random moments, every acknowledged row is there, and nothing that was not logged."""
    random_source = random.Random(20)  # noqa: S311 - moments, not secrets
    for attempt in range(1, KILLS + 1):
        last = kill_after(tmp_path, attempt, random_source.uniform(0.0, 0.05))
        metrics = opened(tmp_path)
        assert metrics.problems == ()
        rows = metrics.series("loss", 0)
        mine = rows.picked(rows.attempts == attempt)
        assert mine.steps.tolist() == list(range(len(mine)))
        assert last + 1 <= len(mine) <= last + 2
        assert mine.values.tolist() == [1.0 / (step + 1) for step in range(len(mine))]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_a_rank_log_too(tmp_path: Path, method: str) -> None:
    """Children that a rank forks or spawns write segments of their own, beside the rank's."""
    script = tmp_path / "train.py"
    script.write_text(
        "import multiprocessing, sys, torchdeck\n"
        "def work(number):\n"
        "    for step in range(50): torchdeck.log({'child': float(number)}, step=step)\n"
        "if __name__ == '__main__':\n"
        "    torchdeck.log({'child': -1.0}, step=0)\n"
        "    context = multiprocessing.get_context(sys.argv[1])\n"
        "    children = [context.Process(target=work, args=(n,)) for n in range(2)]\n"
        "    [child.start() for child in children]\n"
        "    [child.join() for child in children]\n"
        "    sys.exit(max(child.exitcode for child in children))\n"
    )
    variables = {"TORCHDECK_RUN_DIR": str(tmp_path), "TORCHDECK_ATTEMPT": "1", "RANK": "3"}
    subprocess.run(
        [sys.executable, str(script), method], env={**os.environ, **variables}, check=True, timeout=60
    )
    values = opened(tmp_path).series("child", 3).values.tolist()
    assert sorted(values) == [-1.0] + [0.0] * 50 + [1.0] * 50
    assert len(list(rank_folder(tmp_path, rank=3).glob("*.metrics"))) == 3


def test_outside_a_run_nothing_is_written(tmp_path: Path) -> None:
    """A script that logs runs alone, too: no file, no output, no torch, no numpy."""
    code = (
        "import json, sys, torchdeck\n"
        "torchdeck.log({'loss': 1.0}, step=1); torchdeck.log(None); torchdeck.log({'x': 'y'})\n"
        "print(json.dumps(sorted({'torch', 'numpy'} & set(sys.modules))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert (json.loads(done.stdout), done.stderr, list(tmp_path.glob("*.metrics"))) == ([], "", [])
