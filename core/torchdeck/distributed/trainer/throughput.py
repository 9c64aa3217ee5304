"""Training throughput, excluding waits for evaluation and checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from torchdeck.distributed.trainer.step import StepResult


@dataclass(frozen=True)
class Rates:
    """Averages over the steps since the last reading; all ranks together."""

    tokens_per_s: float
    samples_per_s: float
    step_time: float
    """Seconds."""


class Throughput:
    """Accumulates steps between two readings."""

    def __init__(self) -> None:
        self._clear()

    def add(self, result: StepResult) -> None:
        self._steps += 1
        self._tokens += result.tokens
        self._samples += result.samples
        self._seconds += result.seconds

    def take(self) -> Rates | None:
        """Return the rates since the last call; None if there was no step."""
        if self._steps == 0:
            return None
        seconds = max(self._seconds, 1e-9)
        rates = Rates(self._tokens / seconds, self._samples / seconds, seconds / self._steps)
        self._clear()
        return rates

    def _clear(self) -> None:
        self._steps = 0
        self._tokens = 0.0
        self._samples = 0
        self._seconds = 0.0
