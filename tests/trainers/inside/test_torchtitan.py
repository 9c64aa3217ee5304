"""The callback in torchtitan's own Trainer class; the trainer itself needs GPUs and does not run here."""

import subprocess
from pathlib import Path

import pytest

from support.system.trainers_python import ABSENT, trainers_python
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.inside_state import InsideState, read_inside_state
from torchdeck.contract.metrics.progress import read_progress

CORE = Path(__file__).resolve().parents[3] / "core"
PROGRAM = """
import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.append(sys.argv[1])
import torchtitan.trainer

from torchdeck.contract.layout import RunLayout
from torchdeck.trainers.inside import torchtitan as inside
from torchdeck.trainers.inside.report import Report

inside.add(torchtitan.trainer, Report(RunLayout(Path(sys.argv[2])).attempt(1).rank(0)))
trainer = SimpleNamespace(step=7, config=SimpleNamespace(training=SimpleNamespace(steps=10)))
assert torchtitan.trainer.Trainer.should_continue_training(trainer)
"""


@pytest.mark.processes
@pytest.mark.shows("torchtitan", "total and ETA")
def test_step_and_total_are_reported_before_each_step(tmp_path: Path) -> None:
    python = trainers_python()
    if python is None:
        pytest.skip(ABSENT)
    rank = RunLayout(tmp_path).attempt(1).rank(0)
    rank.root.mkdir(parents=True)
    subprocess.run([python, "-c", PROGRAM, str(CORE), str(tmp_path)], check=True, timeout=120)
    counted = read_progress(rank.counted)
    assert counted is not None
    assert (counted.step, counted.total) == (7, 10)
    assert read_inside_state(rank.inside) == InsideState(trainer="torchtitan")
