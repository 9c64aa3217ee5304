"""Operations on a checkpoint. They block: for workers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from torchdeck.quantities import size
from torchdeck.runs.folders.checkpoints import ScriptCheckpoint
from torchdeck.use_cases.checkpoints.here import Verification, export_weights, verify_here
from torchdeck.use_cases.checkpoints.there import exchange_in_process, export_request
from torchdeck_app.bridge.operations import Cancel

Say = Callable[[str], None]


def verified(home: Path, folder: Path, say: Say, cancel: Cancel, *, by_script: bool) -> Verification:
    """Hash every file of a checkpoint and record the verdict; report progress until it is cancelled."""

    def hashed(done: int, total: int) -> None:
        cancel.check()
        said = f"{size(done)} of {size(total)} hashed" if total else "its files are read"
        say(f"{folder.name}: {said}")

    return verify_here(home, folder, hashed, by_script=by_script)


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
