"""What was found out of a run's model and data before its plan is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchdeck.config.training import Training

if TYPE_CHECKING:
    # numpy comes with these, and a script has neither
    from torchdeck.contract.plan.model_profile import ModelProfile
    from torchdeck.data.batch_plan import BatchPlan


@dataclass(frozen=True)
class Known:
    """Facts that plan and preview are made of, besides config and machines."""

    profile: ModelProfile | None = None
    """None where there is no model to know, or it could not be traced."""
    batch_plan: BatchPlan | None = None
    """The one that training.batch_plan names."""
    training: Training | None = None
    """How a script trains, as far as [estimate] says; None: as [training] says."""
    failure: str = ""
    """Why memory cannot be predicted, a sentence; empty where it can, or was not asked for."""
    broken: str = ""
    """Why every rank would fail at once, a sentence; empty where nothing says so."""
    remarks: tuple[str, ...] = ()
    """What else is to be said: one sentence each."""
    others: tuple[ModelProfile, ...] = ()
    """The same model in other precisions, which suggestions are tried with."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Why it will fail, why memory is not known, and remarks."""
        return (*filter(None, (self.broken, self.failure)), *self.remarks)

    @property
    def anything(self) -> bool:
        """Whether there is something to say."""
        return self.profile is not None or self.batch_plan is not None or bool(self.notes)
