"""Ranks that do not all make the same call: bodies for `support.ranks.measured_ranks`."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, Optimizer

from support.ranks.measured_ranks import Job
from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.manager import CheckpointManager
from torchdeck.distributed.checkpoints.peers import Peers, count
from torchdeck.distributed.checkpoints.resuming import auto_resume
from torchdeck.distributed.fit.trainer import DistributedTrainer
from torchdeck.distributed.group.agreement import check_agreement
from torchdeck.distributed.group.roll_call import MissingCallError
from torchdeck.distributed.strategies.base import DistributedStrategy

LONG = 60.0
"""Seconds that no test waits for: what ends before is seen, not timed out."""


class Script:
    """A user's training under a strategy: one step was done."""

    def __init__(self, job: Job, strategy: DistributedStrategy) -> None:
        self.folder = Path(job["folder"]) / "checkpoints"
        self.strategy = strategy
        self.timeout: float | None = job.get("timeout", LONG)
        torch.manual_seed(0)
        self.model = nn.Linear(3, 2)
        self.wrapped = strategy.wrap_model(self.model)
        self.optimizer = strategy.prepare_optimizer(self.wrapped, SGD(self.model.parameters(), lr=0.1))
        self.step()

    def step(self) -> None:
        self.strategy.backward(self.wrapped(torch.ones(4, 3)).square().mean())
        self.strategy.optimizer_step(self.optimizer)
        self.optimizer.zero_grad()

    def save(self, step: int = 1) -> None:
        self.strategy.save(self.folder, self.model, self.optimizer, step=step, timeout=self.timeout)

    def load(self) -> None:
        self.strategy.load(self.folder, self.model, self.optimizer, timeout=self.timeout)


def body(job: Job) -> Any:
    """What each rank was told, and whether it went on without an error."""
    scenarios: dict[str, Callable[[Job], Any]] = {
        function.__name__: function
        for function in (
            main_process_alone, one_continues, different_calls, one_leaves, late_rank, plain_torch,
            own_manager, slow_phase, all_together, trainer_alone,
        )
    }  # fmt: skip
    return scenarios[job["body"]](job)


def told(action: Callable[[], Any]) -> str:
    try:
        action()
    except (CheckpointError, MissingCallError) as error:
        return str(error)
    return ""


def main_process_alone(job: Job) -> str:
    """The other rank does something that no one sees, longer than the timeout."""
    with DistributedStrategy.from_config(job["config"]) as strategy:
        script = Script(job, strategy)
        if "strategy_timeout" in job:
            set_timeout(strategy, job["strategy_timeout"])
        calls = {
            "save": script.save,
            "load": script.load,
            "barrier": lambda: strategy.barrier(script.timeout),
            "check_agreement": lambda: check_agreement(strategy.group, {"seed": 1}),
        }
        if strategy.is_main_process:
            said = told(calls[job["call"]])
            (Path(job["folder"]) / "over").touch()
            return said
        until_exists(Path(job["folder"]) / "over")
        return ""


def set_timeout(strategy: DistributedStrategy, seconds: float) -> None:
    """Set a short timeout after the ranks have met, for which a busy machine may take longer."""
    strategy.settings = dataclasses.replace(strategy.settings, timeout=seconds)
    strategy.group.timeout = seconds


def until_exists(file: Path) -> None:
    deadline = time.monotonic() + LONG
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.02)


def one_continues(job: Job) -> str:
    """The other rank trains on, and hangs in the next step's reduction."""
    with DistributedStrategy.from_config(job["config"]) as strategy:
        script = Script(job, strategy)
        if strategy.is_main_process:
            return told(script.save)
        try:
            script.step()
        except RuntimeError:  # the first rank has ended by then
            return ""
        return "a step of one rank alone"


def different_calls(job: Job) -> str:
    with DistributedStrategy.from_config(job["config"]) as strategy:
        script = Script(job, strategy)
        if job["how"] == "step":
            return told(lambda: script.save(step=1 + strategy.rank))
        return told(script.save if strategy.is_main_process else script.load)


def one_leaves(job: Job) -> str:
    with DistributedStrategy.from_config(job["config"]) as strategy:
        script = Script(job, strategy)
        return told(script.save) if strategy.is_main_process else ""


def late_rank(job: Job) -> list[str]:
    """A rank that comes after the others gave up is told so, too."""
    with DistributedStrategy.from_config(job["config"]) as strategy:
        script, over = Script(job, strategy), Path(job["folder"]) / "late"
        if strategy.rank == 1:
            until_exists(over)
        said = told(script.save)
        over.touch()
        if strategy.rank == 1:
            over.with_name("told").touch()
        until_exists(over.with_name("told"))  # rank 0 serves the store
        return [said, str(sorted(script.folder.glob("step_*")))]


def _without_strategy() -> tuple[nn.Module, Optimizer]:
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Linear(3, 2))
    return model, SGD(model.parameters(), lr=0.1)


def plain_torch(job: Job) -> str:
    """No strategy: torch's own group and DDP, and a manager that every rank has made."""
    model, optimizer = _without_strategy()
    over = Path(job["folder"]) / "over"
    with CheckpointManager(Path(job["folder"]) / "checkpoints") as checkpoints:
        calls: dict[str, Callable[[], Any]] = {
            "save": lambda: checkpoints.save(1, model, optimizer, timeout=job["timeout"]),
            "restore": lambda: checkpoints.restore(model, optimizer, timeout=job["timeout"]),
            "auto_resume": lambda: auto_resume(
                checkpoints.directory, model, optimizer, timeout=job["timeout"]
            ),
        }
        if dist.get_rank() == 0:
            said = told(calls[job["call"]])
            over.touch()
            return said
        until_exists(over)
        return ""


def own_manager(job: Job) -> str:
    """Only the main process makes a manager."""
    _without_strategy()
    over = Path(job["folder"]) / "over"
    if dist.get_rank() == 0:
        said = told(lambda: CheckpointManager(Path(job["folder"]) / "c", timeout=job["timeout"]))
        over.touch()
        return said
    until_exists(over)
    return ""


def slow_phase(job: Job) -> str:
    """A rank that takes too long for its part of a phase is late, on every rank, and not gone."""
    dist.init_process_group("gloo")
    rank, over = dist.get_rank(), Path(job["folder"]) / f"over{os.environ['RANK']}"
    peers = Peers(rank, dist.get_world_size(), job["timeout"])
    peers.call("save")
    peers.join()

    def part() -> int:
        if rank == 1:
            for other in (0, 2):
                until_exists(over.with_name(f"over{other}"))
        return rank

    said = told(lambda: peers.together("writing the files", part, count))
    over.touch()
    for other in range(3):  # rank 0 serves the store
        until_exists(over.with_name(f"over{other}"))
    return said


def trainer_alone(job: Job) -> str:
    """A DistributedTrainer, of which the main process calls a method alone."""
    x, folder = torch.ones(8, 3), Path(job["folder"])
    with DistributedTrainer(nn.Linear(3, 2), loss=nn.MSELoss(), strategy="ddp") as trainer:
        if job["call"] != "fit":
            trainer.fit(x, torch.zeros(8, 2), steps=1)
        else:
            trainer.evaluate(x, torch.zeros(8, 2))
        set_timeout(trainer.strategy, job["timeout"])
        calls = {
            "fit": lambda: trainer.fit(x, torch.zeros(8, 2), steps=2),
            "evaluate": lambda: trainer.evaluate(x, torch.zeros(8, 2)),
            "save_checkpoint": lambda: trainer.save_checkpoint(folder / "saved"),
            "load_checkpoint": lambda: trainer.load_checkpoint(folder / "saved"),
        }
        if trainer.strategy.is_main_process:
            said = told(calls[job["call"]])
            (folder / "over").touch()
            return said
        until_exists(folder / "over")
        return ""


def all_together(job: Job) -> list[str]:
    """Calls that every rank makes, in turn: nothing is left over from one to the next."""
    with DistributedStrategy.from_config(job["config"]) as strategy:
        script = Script(job, strategy)
        said = []
        for step in range(1, 4):
            script.step()
            said += [told(strategy.barrier), told(partial(script.save, step)), told(script.load)]
        return said
