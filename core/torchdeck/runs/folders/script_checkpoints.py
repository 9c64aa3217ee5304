"""Checkpoints that a script wrote by itself, from the journals of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePath

from torchdeck.contract.checkpoints.manifest import MANIFEST_NAME
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.journal import read_journal
from torchdeck.contract.layout import RunLayout
from torchdeck.trainers.checkpoints.journaled import JournaledCheckpoint, journaled_checkpoints
from torchdeck.trainers.checkpoints.search import content_of, find_checkpoints


@dataclass(frozen=True)
class ScriptCheckpoint:
    """One that was complete, and that the agent has not seen deleted."""

    saved: JournaledCheckpoint
    node: str
    """Empty: this machine."""

    @property
    def name(self) -> str:
        return PurePath(self.saved.path).name

    @property
    def is_gone(self) -> bool:
        """It was on this machine and is not any more."""
        return not self.node and not Path(self.saved.path).exists()


def checkpoints_in(folder: Path) -> tuple[ScriptCheckpoint, ...]:
    """Return the complete ones in a folder of this machine, or the one that it is, oldest first."""
    found = [] if (folder / MANIFEST_NAME).exists() else find_checkpoints([folder])
    return tuple(
        ScriptCheckpoint(
            JournaledCheckpoint(
                each.step, each.path, 0.0, content_of(Path(each.path)).size, each.kind, each.changed
            ),
            "",
        )
        for each in found
        if not each.incomplete
    )


def script_checkpoints(layout: RunLayout) -> tuple[ScriptCheckpoint, ...]:
    """Return them, oldest first, without those that were deleted since."""
    found: list[ScriptCheckpoint] = []
    if layout.nodes.is_dir():
        for folder in sorted(layout.nodes.iterdir()):
            node = "" if folder.name == LOCALHOST else folder.name
            saved = journaled_checkpoints(read_journal(layout.node(folder.name).journal))
            found += [ScriptCheckpoint(each, node) for each in saved.values()]
    there = [each for each in found if not each.is_gone]
    return tuple(sorted(there, key=lambda each: each.saved.changed))
