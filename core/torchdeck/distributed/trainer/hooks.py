"""Reporting of every run: progress for the agent, metrics for views, log lines for users."""

from __future__ import annotations

import logging
import resource
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from torchdeck.contract.metrics.progress import ProgressFile, StepTimes
from torchdeck.contract.rank_layout import RankLayout
from torchdeck.contract.run_states import RankPhase
from torchdeck.data.sample_log import SampleLogHeader, SampleLogWriter
from torchdeck.data.step_order import DataPosition, StepOrder
from torchdeck.distributed.trainer.callback import Callback, Counts, Rates
from torchdeck.distributed.trainer.step import StepResult
from torchdeck.environment import Place
from torchdeck.telemetry.writer import MetricsWriter


class ProgressHook(Callback):
    """Writes the rank's progress file, by which the agent detects a hang."""

    def __init__(self, path: Path) -> None:
        self._file = ProgressFile(path)
        self._times = StepTimes()

    def phase(self, phase: RankPhase, step: int, total: int | None) -> None:
        self._file.report(phase, step, total=total, slow_step=self._times.slow_step)

    def step(self, result: StepResult) -> None:
        self._times.add(result.seconds)

    def close(self) -> None:
        self._file.close()


class MetricsHook(Callback):
    """Writes metrics: rank 0 those of all ranks, every rank its own."""

    def __init__(self, folder: Path, rank: int, device: torch.device) -> None:
        self._writer = MetricsWriter(folder, source="trainer")
        self._leads = rank == 0
        self._memory = RankMemory(device)

    def model_next(self) -> None:
        self._memory.mark()

    def step(self, result: StepResult) -> None:
        if self._leads and result.statistics:
            self._writer.log(dict(result.statistics), step=result.step)

    def row(self, result: StepResult, rates: Rates, counts: Counts) -> None:
        values = {"step_time": rates.step_time, **self._memory.read()}
        if self._leads:
            values |= {
                "loss": result.loss,
                "lr": result.lr,
                "tokens_per_s": rates.tokens_per_s,
                "samples_per_s": rates.samples_per_s,
                "tokens": counts.tokens,
                "samples": float(counts.samples),
                **result.metrics,
            }
            if result.grad_norm is not None:
                values["grad_norm"] = result.grad_norm
        self._writer.log(values, step=result.step)

    def evaluated(self, step: int, values: Mapping[str, float]) -> None:
        if self._leads:
            self._writer.log(dict(values), step=step)

    def saved(self, step: int, values: Mapping[str, float]) -> None:
        if self._leads:
            self._writer.log(dict(values), step=step)

    def close(self) -> None:
        self._writer.close()


class SamplesHook(Callback):
    """Records which samples this rank uses. A failure is reported once, and training continues."""

    def __init__(self, path: Path, rank: int, world_size: int) -> None:
        self._path = path
        self._rank = rank
        self._world_size = world_size
        self._writer: SampleLogWriter | None = None

    def begin(self, order: StepOrder, start: DataPosition) -> None:
        header = SampleLogHeader(order.size, self._rank, self._world_size, start.to_json(), order.batch_plan)
        if self._writer is not None and self._writer.goes_on(header, start.step):
            return
        self.close()
        try:
            self._writer = SampleLogWriter(self._path, header)
        except OSError as error:
            self._give_up(error)

    def step(self, result: StepResult) -> None:
        if self._writer is not None:
            try:
                self._writer.write(result.step, result.epoch, result.rank_tokens, result.rank_ids)
            except OSError as error:
                self._give_up(error)

    def phase(self, phase: RankPhase, step: int, total: int | None) -> None:  # noqa: ARG002 - only what comes next counts
        # data that a checkpoint relies on must be on disk before it
        if phase in (RankPhase.SAVING, RankPhase.STOPPING, RankPhase.DONE) and self._writer is not None:
            try:
                self._writer.sync()
            except OSError as error:
                self._give_up(error)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _give_up(self, error: OSError) -> None:
        logging.getLogger("torchdeck").warning(
            "which samples rank %d uses is no longer recorded: %s: %s", self._rank, self._path, error.strerror
        )
        self.close()
        self._writer = None


class LinesHook(Callback):
    """Prints a line periodically; losses with all their digits, so that runs can be compared bit for bit."""

    def __init__(self) -> None:
        self._total: int | None = None

    def begin(self, order: StepOrder, start: DataPosition) -> None:  # noqa: ARG002 - only if it begins
        if start.step:
            print(f"training continues from step {start.step}", flush=True)

    def phase(self, phase: RankPhase, step: int, total: int | None) -> None:  # noqa: ARG002 - the total is all it needs
        self._total = total

    def row(self, result: StepResult, rates: Rates, counts: Counts) -> None:  # noqa: ARG002 - totals are metrics
        metrics = "".join(f"{name} {value!r} " for name, value in result.metrics.items())
        print(
            f"step {result.step}/{self._total} loss {result.loss!r} {metrics}lr {result.lr:.4g} "
            f"tokens/s {rates.tokens_per_s:.0f}",
            flush=True,
        )

    def saved(self, step: int, values: Mapping[str, float]) -> None:
        if "save_interval" in values:
            print(
                f"step {step}/{self._total} saving took {values['save_stall']:.3g} s of training: "
                f"next checkpoint in {values['save_interval']:.3g} s",
                flush=True,
            )

    def evaluated(self, step: int, values: Mapping[str, float]) -> None:
        told = " ".join(f"{name} {value!r}" for name, value in values.items())
        print(f"step {step}/{self._total} {told}", flush=True)

    def ended(self, step: int, reason: str) -> None:
        print(f"training ends at step {step}: {reason}", flush=True)


def make_hooks(
    layout: RankLayout | None,
    place: Place,
    device: torch.device,
    profile_steps: tuple[int, int] | None = None,
) -> list[Callback]:
    """Create the hooks that report a rank's training: files if there is a run directory, lines on rank 0."""
    hooks: list[Callback] = []
    if layout is not None:
        hooks += [
            ProgressHook(layout.progress),
            # before metrics: if a row exists, the samples of its step do too
            SamplesHook(layout.samples, place.rank, place.world_size),
            MetricsHook(layout.metrics, place.rank, device),
        ]
        if profile_steps is not None:
            hooks.append(ProfileHook(layout.trace, profile_steps, device))
    if place.rank == 0:
        hooks.append(LinesHook())
    return hooks


# Memory of this rank.

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_CLEAR_PEAK = "5"
"""Resets VmHWM to VmRSS; see proc_pid_clear_refs(5)."""


class RankMemory:
    """Memory held by this rank: torch's allocations on a GPU, the resident set on the CPU.

    Args:
        device: device of the rank.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._before: float | None = None

    def mark(self) -> None:
        """Start counting the resident set's growth; call it before the model is built.

        Growth is not counted if the peak cannot be reset, as on macOS: it would include earlier use.
        """
        if self._device.type != "cuda":
            with suppress(OSError):
                _CLEAR.write_text(_CLEAR_PEAK)
                self._before, _ = _resident()

    def read(self) -> dict[str, float]:
        """Return memory_bytes and memory_peak_bytes; on the CPU after `mark`, memory_growth_peak_bytes too.

        The last is the peak minus the resident size at the mark: interpreter, libraries and data. It measures
        the resident set, which also includes memory retained by allocators.
        """
        if self._device.type == "cuda":
            return {
                "memory_bytes": float(torch.cuda.memory_allocated(self._device)),
                "memory_peak_bytes": float(torch.cuda.max_memory_allocated(self._device)),
            }
        now, peak = _resident()
        values = {"memory_bytes": now, "memory_peak_bytes": peak}
        if self._before is not None:
            values["memory_growth_peak_bytes"] = max(0.0, peak - self._before)
        return values


def _resident() -> tuple[float, float]:
    """Return the resident set in bytes: current, and peak since the mark (since the start if it cannot be
    reset).
    """
    with suppress(OSError, ValueError, IndexError):
        status = _STATUS.read_text()
        return _kibibytes(status, "VmRSS:") * 1024.0, _kibibytes(status, "VmHWM:") * 1024.0
    # getrusage counts kibibytes on Linux, bytes on macOS
    peak = float(
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    )
    return peak, peak


def _kibibytes(status: str, name: str) -> int:
    return int(status.partition(name)[2].split(maxsplit=1)[0])


class Phases:
    """Reports phases to hooks, with the step and the total.

    Args:
        hooks: hooks to notify.
        compiles: the model is compiled, so the first batch of each shape may take minutes.
    """

    def __init__(self, hooks: Sequence[Callback], *, compiles: bool) -> None:
        self._hooks = hooks
        self._compiles = compiles
        self._shapes_seen: set[tuple[RankPhase, Hashable]] = set()
        self.total: int | None = None

    def enter(self, phase: RankPhase, step: int) -> None:
        """Report that `phase` began or is still alive."""
        for hook in self._hooks:
            hook.phase(phase, step, self.total)

    def compute(self, phase: RankPhase, step: int, shapes: Callable[[], Iterable[Hashable]]) -> None:
        """Report that forward passes follow, in TRAINING or EVALUATING; `shapes` distinguishes their batches.

        If torch.compile will run, the phase is COMPILING, which no watchdog treats as a hang.
        """
        if self._compiles:
            new = {(phase, shape) for shape in shapes()} - self._shapes_seen
            self._shapes_seen |= new
            phase = RankPhase.COMPILING if new else phase
        self.enter(phase, step)


_COMPUTING = frozenset({RankPhase.TRAINING, RankPhase.COMPILING})


class ProfileHook(Callback):
    """Records this rank's work in some steps: operators, kernels, and the time of each.

    The trace is in Chrome's format (chrome://tracing, Perfetto), gzipped. It begins later if an attempt
    resumes inside those steps, and ends early if training does. Outside them it costs one comparison per
    step.

    Args:
        path: path of the trace.
        steps: first and last step recorded.
        device: device of the rank.
    """

    def __init__(self, path: Path, steps: tuple[int, int], device: torch.device) -> None:
        self._path = path
        self._first, self._last = steps
        self._device = device
        self._profile: profile | None = None
        self._done = False

    def phase(self, phase: RankPhase, step: int, total: int | None) -> None:  # noqa: ARG002 - how many does not matter
        wanted = self._first <= step + 1 <= self._last and not self._done
        if wanted and self._profile is None and phase in _COMPUTING:
            activities = [ProfilerActivity.CPU]
            if self._device.type == "cuda":
                activities.append(ProfilerActivity.CUDA)
            self._profile = profile(activities=activities)
            self._profile.start()

    def step(self, result: StepResult) -> None:
        if self._profile is not None and result.step >= self._last:
            self._finish(self._profile)

    def close(self) -> None:
        # training ended or failed inside the window: a partial trace is worth keeping
        if self._profile is not None:
            self._finish(self._profile)

    def _finish(self, recorded: profile) -> None:
        self._profile, self._done = None, True
        recorded.stop()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            recorded.export_chrome_trace(str(self._path))
        except OSError as error:
            logging.getLogger("torchdeck").warning(
                "the trace of steps could not be written: %s: %s", self._path, error.strerror
            )
