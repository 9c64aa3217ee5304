"""The callback in torchtitan's own classes, on two ranks with gloo; its models need GPUs and do not run here.

The loop, the checkpoints and the printed lines are torchtitan's; model and step are the script's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.cli.command import agent_events, wait_for_step
from support.training.inside_scripts import ScriptRun, by_hand
from support.training.live_progress import live_progress
from support.values.metrics import opened
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.inside_state import InsideState, read_inside_state
from torchdeck.contract.metrics.progress import read_progress
from torchdeck.contract.run_states import RankPhase

PROGRAM = """
import json, os, sys, time
from contextlib import contextmanager
from types import SimpleNamespace
import torch, torch.distributed
import torchtitan.trainer
from torchtitan.components.checkpointer import CheckpointManager
from torchtitan.components.metrics import MetricsProcessor
from torchtitan.tools.logging import init_logger
from torchtitan.tools.utils import NoColor

STEPS, INTERVAL = int(sys.argv[1]), int(sys.argv[2])
torchtitan.trainer.dist_utils.set_pg_timeouts = lambda **_: None  # asks for the GPU


def metrics_processor():
    stats = SimpleNamespace(
        max_active_gib=0, max_active_pct=0, max_reserved_gib=0, max_reserved_pct=0,
        num_alloc_retries=0, num_ooms=0,
    )
    processor = MetricsProcessor.__new__(MetricsProcessor)  # its monitor of memory asks for the GPU
    processor.device_memory_monitor = SimpleNamespace(
        get_peak_stats=lambda: stats, reset_peak_stats=lambda: None
    )
    processor.parallel_dims = SimpleNamespace(pp_enabled=False, non_data_parallel_size=1)
    processor.config = SimpleNamespace(log_freq=1)
    processor.logger = SimpleNamespace(log=lambda metrics, step: None)
    processor.color, processor.has_quantization, processor.gpu_peak_flops = NoColor(), True, 1
    processor.num_flops_per_token, processor.ntokens_since_last_log = 1, 1
    processor.data_loading_times, processor.time_last_log = [], time.perf_counter()
    return processor


class Stateful(dict):
    def state_dict(self):
        return dict(self)

    def load_state_dict(self, state):
        self.update(state)


@contextmanager
def profiler(**_):
    yield SimpleNamespace(step=lambda: None)


class Trainer(torchtitan.trainer.Trainer):
    def __init__(self):
        self.config = SimpleNamespace(
            training=SimpleNamespace(steps=STEPS), dump_folder="out",
            checkpoint=SimpleNamespace(load_step=-1),
            profiler=SimpleNamespace(build=profiler), validator=SimpleNamespace(enable=False),
            comm=SimpleNamespace(train_timeout_seconds=60),
        )
        self.step = self.ntokens_seen = 0
        self.dataloader, self.batch_generator = [], iter
        self.gc_handler, self.parallel_dims = SimpleNamespace(run=lambda step: None), None
        torch.manual_seed(0)
        self.model = torch.nn.Linear(8, 8)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.metrics_processor = metrics_processor()
        self.checkpointer = CheckpointManager(
            CheckpointManager.Config(enable=INTERVAL > 0, interval=INTERVAL or 1), dataloader=Stateful(),
            model_parts=[self.model], optimizers=Stateful(), lr_schedulers=Stateful(),
            states={"train_state": self}, sd_adapter=None, base_folder="out",
        )

    def train_step(self, _):
        batch = torch.randn(8, 8, generator=torch.Generator().manual_seed(self.step))
        loss = (self.model(batch) - batch).square().mean()
        loss.backward()
        with torch.no_grad():
            for parameter in self.model.parameters():
                torch.distributed.all_reduce(parameter.grad)
                parameter -= 0.01 * parameter.grad
                parameter.grad = None
        self.metrics_processor.data_loading_times.append(0.1)
        self.metrics_processor.log(self.step, loss.item(), loss.item(), 1 / 3, {"lr": 0.01})
        if torch.distributed.get_rank() == 0:
            with open("curve.txt", "a") as file:
                file.write(f"{self.step} {loss.item()!r}\\n")
        if os.path.exists("slow"):
            time.sleep(0.2)


init_logger()
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
trainer = Trainer()
trainer.train()
print("ended at step", trainer.step, flush=True)
trainer.checkpointer.close()
"""


@pytest.fixture
def script(tmp_path: Path) -> ScriptRun:
    return ScriptRun(tmp_path / "project", tmp_path / "home")


def curve(folder: Path) -> list[str]:
    return (folder / "curve.txt").read_text().splitlines()


def stopped(script: ScriptRun, *args: str) -> tuple[RunLayout, Any]:
    """Start the program, stop it after step 6; its run, and its progress while it ran."""
    config = script.config(PROGRAM, *args)
    text = config.read_text().replace("[run]\n", '[run]\nresume_args = ["again"]\n')
    config.write_text(text)
    (script.folder / "slow").touch()
    with script.command.start("--no-gui", "--trust", config) as front:
        layout = script.command.the_run()
        wait_for_step(layout, 6, 90)
        live = live_progress(script.command)
        done = script.command.run("runs", "stop", layout.root.name)
        assert done.returncode == 0, done.stdout + done.stderr
        front.communicate(timeout=60)
    (script.folder / "slow").unlink()
    return layout, live


@pytest.mark.soak  # text/ and checkpoints/ run its printer and its saves every time
@pytest.mark.timeout(480)  # three trainings on two ranks, with their imports
@pytest.mark.shows("torchtitan", "metrics", "steps", "total and ETA", "checkpoints", "stop saves", "resume")
def test_a_stop_saves_all_that_a_training_continues_from(script: ScriptRun) -> None:
    """Between two of its own saves, on both ranks; resumed, it has the curve of a training by hand."""
    layout, live = stopped(script, "120", "1000")
    assert live["total"] == 120
    outputs = [layout.attempt(1).rank(rank).stdout.read_text() for rank in (0, 1)]
    steps = {output.partition("ended at step ")[2].split()[0] for output in outputs}
    assert len(steps) == 1, steps
    step = int(steps.pop())
    assert 6 <= step < 120
    assert script.command.json("runs", "show", layout.root.name)["state"] == "CANCELLED"
    for rank in (0, 1):
        counted = read_progress(layout.attempt(1).rank(rank).counted)
        assert counted is not None
        assert (counted.phase, counted.step, counted.total) == (RankPhase.STOPPING, step, 120)
        assert read_inside_state(layout.attempt(1).rank(rank).inside) == InsideState(
            "torchtitan", saves_on_stop=True
        )
    listed = script.command.json("ckpt", "list", layout.root.name)
    assert [(row["name"], row["kind"]) for row in listed] == [(f"step-{step}", "torchtitan")]

    resumed = script.command.run("runs", "resume", layout.root.name)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert agent_events(layout, "attempt_started")[1].fields["resume_step"] == step
    hand = script.folder.parent / "by_hand"
    by_hand(hand, PROGRAM, ("120", "0"))
    assert curve(script.folder) == curve(hand)
    exact = opened(layout.root).series("loss", 0)
    rows = [line.split() for line in curve(script.folder)]
    assert [
        [str(step), repr(loss)]
        for step, loss in zip(exact.steps.tolist(), exact.values.tolist(), strict=True)
    ] == rows
    assert set(opened(layout.root).series("grad_norm", 1).values.tolist()) == {1 / 3}
