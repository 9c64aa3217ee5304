"""Facts about a run's model and data, gathered before its plan is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchdeck.config.training import Training
from torchdeck.trainers.program_settings import ProgramSettings

if TYPE_CHECKING:
    # these import numpy, and a script has neither
    from torchdeck.contract.plan.model_profile import ModelProfile
    from torchdeck.data.batch_plan import BatchPlan
    from torchdeck.plan.hugging_face.program_model import ProgramModel


@dataclass(frozen=True)
class Known:
    """Facts for plan and preview, besides config and machines."""

    profile: ModelProfile | None = None
    """None if there is no known model, or it could not be traced."""
    batch_plan: BatchPlan | None = None
    """Batch plan named by training.batch_plan."""
    training: Training | None = None
    """Training settings of a script according to [estimate]; None: those of [training]."""
    failure: str = ""
    """Why memory cannot be predicted, as a sentence; empty if it can, or was not requested."""
    broken: str = ""
    """Why every rank would fail at once, as a sentence; empty if no problem is known."""
    remarks: tuple[str, ...] = ()
    """Further notes: one sentence each."""
    program: ProgramSettings | None = None
    """Training settings of a script according to its own arguments and config files."""
    models: tuple[ProgramModel, ...] = ()
    """A script's model as its own arguments train it, from a config.json; two if the type of its weights is
    unknown, the smaller first. `profile` is that of the first.
    """
    others: tuple[ModelProfile, ...] = ()
    """The same model in other precisions, for trying suggestions."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Why it will fail, why memory is not known, and remarks."""
        return (*filter(None, (self.broken, self.failure)), *self.remarks)

    @property
    def anything(self) -> bool:
        """Whether there are any notes."""
        return self.profile is not None or self.batch_plan is not None or bool(self.notes)
