"""Run from whose checkpoint another run started."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torchdeck.contract.checkpoints.manifest import CheckpointError, read_manifest
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.view import RunView


@dataclass(frozen=True)
class Origin:
    """Run whose checkpoint the first attempt restored."""

    run_id: str
    step: int | None
    """Optimizer steps completed in it; None if the journal does not say."""

    @property
    def name(self) -> str:
        """Name of the run as far as its id contains it: the part between its time and its random end."""
        return self.run_id.partition("-")[2].rpartition("-")[0] or self.run_id


def origin_of(view: RunView) -> Origin | None:
    """Return the run a run started from; None if it started from scratch. Reads the manifest of one
    checkpoint.

    A deleted checkpoint is still identified by its path, in the directory of its run.
    """
    first = view.attempts[0] if view.attempts else None
    if first is None or not first.resume:
        return None
    folder = Path(first.resume)
    try:
        run_id = read_manifest(folder).run_id
    except CheckpointError:
        layout = RunLayout(folder.parent.parent)
        run_id = layout.root.name if folder.parent == layout.checkpoints else ""
    return Origin(run_id, first.resume_step) if run_id not in ("", view.id) else None
