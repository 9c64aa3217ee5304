"""When a checkpoint is due."""

from __future__ import annotations

from torchdeck.distributed.settings import CheckpointSettings
from torchdeck.distributed.trainer.step import StepResult


class SaveCadence:
    """Decides after which steps training saves; the same on every rank.

    Args:
        settings: every how many steps.
    """

    def __init__(self, settings: CheckpointSettings) -> None:
        self._every = settings.every

    def wished(self, step: int) -> bool:  # noqa: ARG002 - a fixed cadence is known to all ranks
        """Whether this rank asks the others for a checkpoint after `step`; asked before the step."""
        return False

    def may_be_due(self, step: int) -> bool:
        """Whether a checkpoint after `step` is foreseen."""
        return self._every is not None and step % self._every == 0

    def due(self, result: StepResult) -> bool:
        """Whether to save after the step that gave `result`."""
        return result.save or self.may_be_due(result.step)
