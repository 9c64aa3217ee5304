"""Checkpoints on this machine: verified, deleted, or exported without torch."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.checkpoints.manifest import CheckpointError, read_manifest
from torchdeck.contract.checkpoints.verification import verify_files
from torchdeck.contract.layout import Home, RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.distributed.checkpoints.checkpoint_directory import CheckpointDirectory
from torchdeck.runs.folders.checkpoints import ScriptCheckpoint, by_directory, checkpoint_directory
from torchdeck.runs.folders.notes import Note, read_notes
from torchdeck.runs.folders.verdicts import Verdict, keep_verdict, seal_of
from torchdeck.runs.follower import read_run
from torchdeck.runs.registry import RunRegistry
from torchdeck.trainers.checkpoints.soundness import Soundness, soundness_of

Hashed = Callable[[int, int], None]
"""Called with the bytes hashed so far, and their total; 0 if the total is unknown. May raise."""


class Verification(NamedTuple):
    """A verdict, and whether the next start knows it."""

    verdict: Verdict
    forgotten: str
    """Why it is not recorded; empty if it is."""


def verify_here(
    home: Path, path: Path, hashed: Hashed = lambda _done, _total: None, *, by_script: bool = False
) -> Verification:
    """Hash every file of a checkpoint, and record the verdict.

    Args:
        home: TORCHDECK_HOME.
        path: the checkpoint.
        hashed: progress; an exception from it ends the call, and nothing is recorded.
        by_script: its program wrote it in a format of its own, without a manifest.
    """
    path = path.absolute()
    try:
        seal = seal_of(path)
        found = _of_script(path, hashed) if by_script else Soundness(_problems(path, hashed))
    except OSError as error:
        return Verification(Verdict((str(error),), time.time(), ""), "it cannot be read")
    verdict = Verdict(tuple(found.problems), time.time(), seal, found.unchecked)
    try:
        keep_verdict(home, path, verdict)
    except OSError as error:
        return Verification(verdict, f"it cannot be remembered: {error.strerror or error}")
    return Verification(verdict, "")


def _of_script(path: Path, hashed: Hashed) -> Soundness:
    hashed(0, 0)
    return soundness_of(path)


def _problems(folder: Path, hashed: Hashed) -> list[str]:
    try:
        manifest = read_manifest(folder)
    except CheckpointError as error:
        return [str(error)]
    problems: list[str] = []
    done, files = 0, manifest.files_here
    total = sum(entry.size for entry in files.values())
    for name, entry in files.items():
        hashed(done, total)
        problems += verify_files(folder, manifest, [name])
        done += entry.size
    return problems


def sharing_runs(layout: RunLayout) -> tuple[RunLayout, ...]:
    """Return the other runs with the same checkpoint directory. Blocks."""
    home = layout.home.root
    groups = by_directory(Home(home).run(run_id) for run_id in RunRegistry(home).ids())
    return tuple(other for group in groups.values() if layout in group for other in group if other != layout)


def refuse_held(layout: RunLayout, sharing: Iterable[RunLayout]) -> None:
    """Raise Refusal if the run is pinned, or another that has the same folder is pinned or not over."""
    notes = read_notes(layout.home.root)
    if notes.get(layout.root.name, Note()).pinned:
        raise Refusal("the run is pinned")
    for other in sharing:
        name = other.root.name
        if notes.get(name, Note()).pinned:
            raise Refusal(f"run {name}, which has the same checkpoint folder, is pinned")
        if not read_run(other).is_over:
            raise Refusal(f"run {name}, which has the same checkpoint folder, is not over")


def delete_checkpoint(layout: RunLayout, folder: Path, sharing: Iterable[RunLayout] | None = None) -> None:
    """Delete one checkpoint of a finished run.

    Args:
        layout: the run.
        folder: the checkpoint.
        sharing: other runs with the same checkpoint directory; None: they are looked for.

    Raises:
        Refusal: the run is pinned, or another that has the same directory is pinned or not over.
        CheckpointError: the run is active (its rank 0 is the directory's only writer), another process saves
            into the directory, or it cannot be deleted.
        NewerFormatError: the run is from a newer Torchdeck.
    """
    refuse_held(layout, sharing_runs(layout) if sharing is None else sharing)
    view = read_run(layout)
    if not view.is_over:
        raise CheckpointError(
            f"run {view.id} is {view.state}: its own retention rule applies to its checkpoints until it ends"
        )
    directory = CheckpointDirectory(checkpoint_directory(layout))
    if folder.parent != directory.path:
        raise CheckpointError(f"{folder} is not one of the checkpoints in {directory.path}")
    directory.open(view.id, wait=0.0)
    try:
        directory.delete(folder)
    finally:
        directory.close()
    if folder.exists():
        raise CheckpointError(
            f"{folder} could not be deleted: do you have write permission in {directory.path}?"
        )


_DESCRIPTIONS = (".json", ".model", ".txt", ".jinja")


def export_weights(found: ScriptCheckpoint, target: Path, *, force: bool = False) -> list[Path]:
    """Copy its weights in safetensors, and what describes them, to a new folder; return the files.

    Raises:
        Refusal: it has no weights in that format, lies on another node, or the target exists.
        OSError: it cannot be copied.
    """
    source = Path(found.saved.path)
    if found.node:
        raise Refusal(
            f"checkpoint {found.name} is on node {found.node} ({source})",
            fix="`torchdeck runs pull ID --checkpoints` copies it here",
        )
    names = [source.name] if source.is_file() else sorted(path.name for path in source.iterdir())
    weights = [name for name in names if name.endswith(".safetensors")]
    if not weights:
        raise Refusal(
            f"{found.name} ({found.saved.kind.trainer}) has no weights in safetensors",
            "its pickles are not read, because that would execute code in them",
            fix=f"`torchdeck ckpt convert {source} DST --to single --trust` may read them",
        )
    if target.exists() and not force:
        raise Refusal(f"{target} exists", fix="give another folder")
    described = [name for name in names if name.endswith(_DESCRIPTIONS) and name != "trainer_state.json"]
    folder = source if source.is_dir() else source.parent
    target.mkdir(parents=True, exist_ok=True)
    return [Path(shutil.copy2(folder / name, target / name)) for name in weights + described]
