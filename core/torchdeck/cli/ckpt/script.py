"""`torchdeck ckpt` for checkpoints that a script wrote by itself."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torchdeck.cli.ckpt.lookup import CkptUsageError
from torchdeck.quantities import size
from torchdeck.runs.folders.script_checkpoints import ScriptCheckpoint, export_weights
from torchdeck.trainers.checkpoints.soundness import problems_of


def list_row(found: ScriptCheckpoint) -> dict[str, Any]:
    """Return the object of `ckpt list --json`."""
    saved = found.saved
    return {
        "step": saved.step,
        "about": saved.about,
        "name": found.name,
        "path": saved.path,
        "node": found.node,
        "complete": True,
        "why": "",
        "size": saved.size,
        "created": saved.changed,
        "seconds": None,
        "kind": saved.kind.value,
    }


def list_line(found: ScriptCheckpoint) -> str:
    """Return the line of `ckpt list`."""
    saved = found.saved
    created = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(saved.changed))
    step = "" if saved.step is None else f"{'about ' * saved.about}step {saved.step}, "
    where = f" on {found.node}" if found.node else ""
    return (
        f"{found.name:<16} {size(saved.size):>10}  {step}{saved.kind.trainer}, {created}, {saved.path}{where}"
    )


def chosen_of_script(
    found: Sequence[ScriptCheckpoint], step: str | None, *, every: bool
) -> list[ScriptCheckpoint]:
    """Return the one with this step or name (None: the newest), or all; raises CkptUsageError."""
    if every:
        return list(found)
    if step is None:
        return [found[-1]]
    named = [each for each in found if step in (each.name, str(each.saved.step))]
    if not named:
        there = ", ".join(each.name for each in found)
        raise CkptUsageError(f"there is no checkpoint {step}; there are: {there}")
    return named[-1:]


def verified_row(found: ScriptCheckpoint) -> dict[str, Any]:
    """Return the result of reading it whole; raises CkptUsageError if it lies on another node."""
    if found.node:
        raise CkptUsageError(f"checkpoint {found.name} lies on node {found.node} ({found.saved.path})")
    problems = problems_of(Path(found.saved.path))
    return {
        "name": found.name,
        "step": found.saved.step,
        "path": found.saved.path,
        "sound": not problems,
        "problems": problems,
    }


def run_export_of_script(found: ScriptCheckpoint, args: argparse.Namespace) -> int:
    """Export; raises Refusal and OSError."""
    if args.dtype or args.optimizer or args.ema:
        raise CkptUsageError("a script's weights are copied as they are: no --dtype, --optimizer or --ema")
    target = Path(args.output).expanduser()
    written = export_weights(found, target, force=args.force)
    total = sum(path.stat().st_size for path in written)
    sys.stdout.write(f"{target}: {found.name}, {size(total)} in {len(written)} files\n")
    return 0
