"""Checkpoints that a script wrote by itself, from the journals of a run."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path, PurePath

from torchdeck.contract.checkpoints.manifest import MANIFEST_NAME
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.journal import read_journal
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
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


_DESCRIPTIONS = (".json", ".model", ".txt", ".jinja")


def export_weights(found: ScriptCheckpoint, target: Path, *, force: bool = False) -> list[Path]:
    """Copy its weights in safetensors, and what describes them, to a new folder; return the files.

    Raises:
        Refusal: it has no weights in that format, lies on another node, or the target exists.
        OSError: it cannot be copied.
    """
    source = Path(found.saved.path)
    if found.node:
        raise Refusal(f"checkpoint {found.name} lies on node {found.node} ({source})")
    names = [source.name] if source.is_file() else sorted(path.name for path in source.iterdir())
    weights = [name for name in names if name.endswith(".safetensors")]
    if not weights:
        raise Refusal(
            f"{found.name} ({found.saved.kind.trainer}) has no weights in safetensors",
            "its pickles are not read, as that would execute code in them",
            fix=f"`torchdeck ckpt convert {source} DST --to single --trust` may read them",
        )
    if target.exists() and not force:
        raise Refusal(f"{target} exists", fix="give another folder")
    described = [name for name in names if name.endswith(_DESCRIPTIONS) and name != "trainer_state.json"]
    folder = source if source.is_dir() else source.parent
    target.mkdir(parents=True, exist_ok=True)
    return [Path(shutil.copy2(folder / name, target / name)) for name in weights + described]
