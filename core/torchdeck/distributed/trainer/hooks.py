"""What the outside is told of training: progress for the agent, metrics for views, lines for people."""

from __future__ import annotations

from pathlib import Path

import torch

from torchdeck.distributed.trainer.memory import memory_of_rank
from torchdeck.distributed.trainer.step import StepResult
from torchdeck.distributed.trainer.throughput import Rates
from torchdeck.rundir.layout import RankLayout
from torchdeck.telemetry.progress import ProgressFile, StepTimes
from torchdeck.telemetry.writer import MetricsWriter


class Counts:
    """What was trained on since the very start, over all attempts."""

    def __init__(self, tokens: float = 0.0, samples: int = 0) -> None:
        self.tokens = tokens
        self.samples = samples

    def add(self, result: StepResult) -> None:
        self.tokens += result.tokens
        self.samples += result.samples


class Hook:
    """Is told what happens; a subclass overrides what it wants to know."""

    def phase(self, phase: str, step: int, total: int | None) -> None:
        """A phase began, or goes on: called again with every sign of life."""

    def step(self, result: StepResult) -> None:
        """A step is done."""

    def row(self, result: StepResult, rates: Rates, counts: Counts) -> None:
        """A step is done that metrics are wanted of; after `step`."""

    def evaluated(self, step: int, loss: float) -> None:
        """The held-out loss after `step` steps."""

    def close(self) -> None:
        """Training is over."""


class ProgressHook(Hook):
    """Keeps the rank's progress file, by which the agent sees a hang."""

    def __init__(self, path: Path) -> None:
        self._file = ProgressFile(path)
        self._times = StepTimes()

    def phase(self, phase: str, step: int, total: int | None) -> None:
        self._file.report(phase, step, total=total, slow_step=self._times.slow_step)

    def step(self, result: StepResult) -> None:
        self._times.add(result.seconds)

    def close(self) -> None:
        self._file.close()


class MetricsHook(Hook):
    """Writes metrics: rank 0 what holds for all ranks, every rank what is its own."""

    def __init__(self, folder: Path, rank: int, device: torch.device) -> None:
        self._writer = MetricsWriter(folder, source="trainer")
        self._leads = rank == 0
        self._device = device

    def row(self, result: StepResult, rates: Rates, counts: Counts) -> None:
        values = {"step_time": rates.step_time, **memory_of_rank(self._device)}
        if self._leads:
            values |= {
                "loss": result.loss,
                "lr": result.lr,
                "tokens_per_s": rates.tokens_per_s,
                "samples_per_s": rates.samples_per_s,
                "tokens": counts.tokens,
                "samples": float(counts.samples),
            }
            if result.grad_norm is not None:
                values["grad_norm"] = result.grad_norm
        self._writer.log(values, step=result.step)

    def evaluated(self, step: int, loss: float) -> None:
        if self._leads:
            self._writer.log({"heldout_loss": loss}, step=step)

    def close(self) -> None:
        self._writer.close()


class LinesHook(Hook):
    """Prints a line now and then; losses with all their digits, so that runs can be compared bit for bit."""

    def __init__(self) -> None:
        self._total: int | None = None

    def phase(self, phase: str, step: int, total: int | None) -> None:  # noqa: ARG002 - the total is all it needs
        self._total = total

    def row(self, result: StepResult, rates: Rates, counts: Counts) -> None:  # noqa: ARG002 - totals are metrics
        print(
            f"step {result.step}/{self._total} loss {result.loss!r} lr {result.lr:.4g} "
            f"tokens/s {rates.tokens_per_s:.0f}",
            flush=True,
        )

    def evaluated(self, step: int, loss: float) -> None:
        print(f"step {step}/{self._total} heldout_loss {loss!r}", flush=True)


def make_hooks(layout: RankLayout | None, rank: int, device: torch.device) -> list[Hook]:
    """A rank's hooks: files where there is a run directory, lines on rank 0."""
    hooks: list[Hook] = []
    if layout is not None:
        hooks += [ProgressHook(layout.progress), MetricsHook(layout.metrics, rank, device)]
    if rank == 0:
        hooks.append(LinesHook())
    return hooks
