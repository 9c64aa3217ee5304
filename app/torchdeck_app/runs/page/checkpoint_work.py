"""Operations on a checkpoint. They block: for workers."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from torchdeck.contract.checkpoints.manifest import MANIFEST_NAME, read_manifest
from torchdeck.contract.checkpoints.verification import verify_files
from torchdeck.contract.refusal import Refusal
from torchdeck.quantities import size
from torchdeck.runs.folders.checkpoints import ScriptCheckpoint, export_weights
from torchdeck.runs.folders.verdicts import Verdict, keep_verdict, seal_of
from torchdeck.trainers.checkpoints.soundness import problems_of
from torchdeck.use_cases.checkpoints import exchange_in_process, export_request
from torchdeck_app.bridge.operations import Cancel

Say = Callable[[str], None]


def verified(home: Path, folder: Path, say: Say, cancel: Cancel) -> tuple[Verdict, str]:
    """Hash every file of a checkpoint and record the verdict.

    Returns:
        The verdict, and why it cannot be recorded; empty if it can.
    """
    try:
        seal = seal_of(folder)
        verdict = Verdict(_problems(folder, say, cancel), time.time(), seal)
    except (Refusal, OSError) as error:
        return Verdict((str(error),), time.time(), ""), ""
    try:
        keep_verdict(home, folder, verdict)
    except OSError as error:
        return verdict, f"it cannot be remembered: {error.strerror or error}"
    return verdict, ""


def _problems(folder: Path, say: Say, cancel: Cancel) -> tuple[str, ...]:
    if not (folder / MANIFEST_NAME).exists():
        say(f"{folder.name}: its files are read")
        return tuple(problems_of(folder))
    manifest = read_manifest(folder)
    problems: list[str] = []
    done, files = 0, manifest.files_here
    whole = sum(entry.size for entry in files.values())
    for name, entry in files.items():
        cancel.check()
        say(f"{folder.name}: {size(done)} of {size(whole)} hashed")
        problems += verify_files(folder, manifest, [name])
        done += entry.size
    return tuple(problems)


def exported(folder: Path, target: Path, say: Say) -> str:
    """Export a checkpoint's weights to `target` by a process that has torch; return a summary.

    Raises:
        ExchangeFailedError: nothing was written.
    """

    def progress(what: str, done: int, total: int) -> None:
        say(f"{what}: {done:,} of {total:,}" if total else f"{what}: {done:,}")

    done = exchange_in_process(export_request(folder, target), sys.executable, progress)
    files = "1 file" if done["files"] == 1 else f"{done['files']} files"
    return f"Exported step {done['step']:,} to {done['path']}: {size(done['size'])} in {files}"


def exported_weights(found: ScriptCheckpoint, target: Path) -> str:
    """Copy the weights that a script saved to `target`; return a summary.

    Raises:
        Refusal: it has none in a format that can be read without executing code.
        OSError: they cannot be copied.
    """
    written = export_weights(found, target)
    whole = sum(path.stat().st_size for path in written)
    files = "1 file" if len(written) == 1 else f"{len(written)} files"
    return f"Exported {found.name} to {target}: {size(whole)} in {files}"
