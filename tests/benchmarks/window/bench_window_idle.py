"""What the window takes of a core while no one touches it: it shows the page of a real run that continues.

On a machine that is busy with other things the processor's time grows by as much as half; wake-ups a
second stay.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.rows import Row
from support.cli.command import Command
from support.gui.desktop import desktop

WORKER = Path(__file__).parents[1] / "workers/window_idle_worker.py"
SECONDS = 30
"""Over which processor time is counted."""
HISTORY = 6_000
"""Rows that the run has before it is looked at: more than the 4,096 that the plots read one by one."""
GOAL = 3.0
"""Per cent of a core."""
LONGEST = 300
"""Seconds that the script continues unless it is stopped."""
SCRIPT = """\
import time
import torchdeck
for step in range({steps}):
    loss = 2.0 + 1.0 / (step + 1)
    torchdeck.log({{"loss": loss, "lr": 3e-4, "grad_norm": 1.0, "tokens_per_s": 1e4}}, step=step)
    print(f"step {{step}} loss {{loss:.4f}}", flush=True)
    if step >= {history}:
        time.sleep(0.1)
"""


def run() -> list[Row]:
    """Without a screen, and on a screen of X where there is one to be had."""
    with tempfile.TemporaryDirectory() as folder, _live_run(Path(folder)) as run_id:
        rows = _rows("offscreen", Path(folder), run_id, {"QT_QPA_PLATFORM": "offscreen"})
        if shutil.which("Xvfb") and shutil.which("openbox"):
            with desktop() as screen:
                rows += _rows("Xvfb", Path(folder), run_id, screen.environment)
    return rows


def _rows(where: str, folder: Path, run_id: str, screen: Mapping[str, str]) -> list[Row]:
    done = subprocess.run(
        [sys.executable, str(WORKER), run_id, str(SECONDS)],
        env={**os.environ, **screen, "TORCHDECK_HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=SECONDS + 120,
        check=True,
    )
    assert done.stdout, f"the window counted nothing: {done.stderr}"
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["state"] == "running", said
    assert said["steps"] > 5 * SECONDS, f"the run logged {said['steps']} steps in {SECONDS} s"
    return [
        Row(
            name=f"window beside a live run, of a core ({where})",
            ours=100 * said["processor"] / said["seconds"],
            unit="%",
            wanted=GOAL,
            lower_is_better=True,
            goal_is_absolute=True,
        ),
        Row(
            name=f"  of that, the GUI thread ({where})",
            ours=100 * said["gui"] / said["seconds"],
            unit="%",
        ),
        Row(name=f"  wake-ups of its threads ({where})", ours=said["wakeups"] / said["seconds"], unit="/s"),
    ]


@contextmanager
def _live_run(home: Path) -> Iterator[str]:
    """A script's run that logs ten steps a second; its id."""
    script = home / "ten_steps_a_second.py"
    script.write_text(SCRIPT.format(steps=HISTORY + 10 * LONGEST, history=HISTORY))
    torchdeck = Command(home)
    begun = torchdeck.run("--no-gui", "--script", script, "--nproc", "1", "--detach")
    assert begun.returncode == 0, begun.stderr
    run_id = torchdeck.the_run().root.name
    try:
        yield run_id
    finally:
        torchdeck.run("runs", "stop", run_id, "--now")
