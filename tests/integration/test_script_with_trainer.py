"""A script that trains by DistributedTrainer, as a run: stopped, resumed, and what it records."""

import re
from pathlib import Path

import pytest

from support.cli.command import Command, wait_for_step
from torchdeck.contract.layout import RunLayout
from torchdeck.data.sample_log import SampleLog

SCRIPT = """
import os
import time

import torch
from torch import nn

from torchdeck.distributed import Callback, DistributedTrainer


class Pace(Callback):
    def step(self, result):
        if os.environ["TORCHDECK_ATTEMPT"] == "1":
            time.sleep(0.25)


torch.manual_seed(0)
x = torch.randn(256, 4)
model = nn.Linear(4, 1)
with DistributedTrainer(model, loss=nn.MSELoss(), callbacks=[Pace()]) as trainer:
    for steps in (6, 120):
        if trainer.step < steps:
            history = trainer.fit(x, x.sum(1, keepdim=True), steps=steps, microbatch=4)
    if trainer.strategy.is_main_process:
        print("finished" if history.finished else "stopped", "after step", trainer.step)
"""
LAST = 120


def recorded(run: RunLayout, attempt: int, rank: int) -> tuple[list[int], list[int]]:
    """Steps, and the samples of all of them."""
    log = SampleLog(run.attempt(attempt).rank(rank).samples)
    records = list(log.records())
    return [record.step for record in records], [int(sample) for record in records for sample in record.ids]


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_a_script_is_stopped_with_a_checkpoint_and_goes_on(ranks: int, tmp_path: Path) -> None:
    """In the second of two calls of fit; all ranks stop after one step, and no sample is used twice.

    That two ranks agree on the step is in tests/distributed/test_entry.py.
    """
    command = Command(tmp_path / "home")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    with command.start("--no-gui", "--script", script, "--nproc", str(ranks)) as front:
        run = command.the_run()
        wait_for_step(run, 10)
        stopped = command.run("runs", "stop", run.root.name)
        assert stopped.returncode == 0, stopped.stdout + stopped.stderr
        output, _ = front.communicate(timeout=60)
    said = re.search(r"stopped after step (\d+)", output)
    assert said, output
    step = int(said[1])
    assert 10 <= step < LAST

    resumed = command.run("runs", "resume", run.root.name)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert f"training continues from step {step}" in resumed.stdout
    assert f"finished after step {LAST}" in resumed.stdout
    used: list[int] = []
    for rank in range(ranks):
        first, before = recorded(run, 1, rank)
        second, after = recorded(run, 2, rank)
        assert first == list(range(1, step + 1))
        assert second == list(range(step + 1, LAST + 1))
        used += before + after
    assert len(used) == LAST * 4 * ranks
    assert {used.count(sample) for sample in range(256)} == {len(used) // 256, len(used) // 256 + 1}
