"""A predicted peak of memory beside the measured one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torchdeck.plan.memory.context import context_bytes
from torchdeck.plan.memory.peak import PredictedPeak
from torchdeck.plan.memory.spec import StrategySpec


class Predictable(Protocol):
    """A configuration that the predictor can be told of."""

    @property
    def spec(self) -> StrategySpec: ...


@dataclass(frozen=True)
class ComparedPeak:
    """One configuration; both figures without what a process takes besides tensors, bytes."""

    setting: Predictable
    prediction: PredictedPeak
    measured: int
    """Largest of all ranks and steps."""

    @property
    def predicted(self) -> int:
        """At the highest phase."""
        return self.prediction.highest.total - context_bytes(self.setting.spec)

    @property
    def high(self) -> int:
        """Upper end of the predicted range."""
        return self.predicted + self.prediction.uncertainty

    @property
    def error(self) -> float:
        """Of the prediction, as a fraction of what was measured."""
        return self.predicted / self.measured - 1
