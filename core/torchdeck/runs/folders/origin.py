"""Which run a run goes on from, where it began with a checkpoint of another one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torchdeck.contract.checkpoints.manifest import CheckpointError, read_manifest
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.view import RunView


@dataclass(frozen=True)
class Origin:
    """The run whose checkpoint the first attempt restored."""

    run_id: str
    step: int | None
    """Optimizer steps done in it; None where the journal does not say."""

    @property
    def name(self) -> str:
        """What the run was called, as far as its id says: what stands between its time and its random end."""
        return self.run_id.partition("-")[2].rpartition("-")[0] or self.run_id


def origin_of(view: RunView) -> Origin | None:
    """Where a run goes on from; None where it began from nothing. Reads the manifest of one checkpoint.

    A checkpoint that is gone is still known by where it lay, in the directory of its run.
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
