"""A torch.profiler trace of some steps."""

from __future__ import annotations

import logging
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from torchdeck.contract.run_states import RankPhase
from torchdeck.distributed.trainer.callback import Callback
from torchdeck.distributed.trainer.step import StepResult

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
