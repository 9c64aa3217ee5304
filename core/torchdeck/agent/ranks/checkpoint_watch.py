"""Sees complete checkpoints appear."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.file_names import FolderNames


class SeenCheckpoint(NamedTuple):
    """A complete checkpoint, as journaled."""

    step: int
    path: str
    seconds: float
    size: int
    """Bytes."""


class CheckpointWatch:
    """Looks into one checkpoint directory; reports each complete checkpoint of this run once.

    Attributes:
        last_size: bytes of the newest one, 0 before there is one.
    """

    def __init__(self, directory: Path, run_id: str, known: frozenset[tuple[str, int]]) -> None:
        self.last_size = 0
        self._directory = directory
        self._run_id = run_id
        self._journaled = set(known)
        self._dismissed: dict[str, int] = {}
        self._names_in = FolderNames()

    def look(self) -> list[SeenCheckpoint]:
        """New complete checkpoints, oldest first. Costs one stat while nothing happens, and one for each."""
        try:
            names = [name for name in self._names_in(self._directory) if not name.startswith(".")]
        except OSError:
            return []
        found = [seen for name in names if (seen := self._look_at(self._directory / name)) is not None]
        return sorted(found)

    def _look_at(self, folder: Path) -> SeenCheckpoint | None:
        # the manifest is committed last: before it there is nothing, after it nothing but a replacement
        manifest_file = folder / "manifest.json"
        try:
            changed = manifest_file.stat().st_mtime_ns
        except OSError:
            return None
        if self._dismissed.get(folder.name) == changed:
            return None
        self._dismissed[folder.name] = changed
        from torchdeck.contract.checkpoints.manifest import CheckpointError, read_manifest

        try:
            manifest = read_manifest(folder)
        except CheckpointError:
            return None
        if manifest.run_id != self._run_id:
            return None
        size = sum(entry.size for entry in manifest.files.values())
        self.last_size = size
        if (str(folder), manifest.step) in self._journaled:
            return None
        self._journaled.add((str(folder), manifest.step))
        return SeenCheckpoint(manifest.step, str(folder), manifest.seconds, size)
