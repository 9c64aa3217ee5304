"""`torchdeck ckpt` for checkpoints that a script wrote by itself."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.cli.ckpt.chosen_checkpoint import CkptUsageError, run_named
from torchdeck.cli.terminal_ui import TerminalUi
from torchdeck.quantities import size
from torchdeck.runs.folders.checkpoints import ScriptCheckpoint
from torchdeck.runs.folders.verdicts import Verdict
from torchdeck.use_cases.checkpoints.here import export_weights

if TYPE_CHECKING:
    from torchdeck.nodes.probe.remote_files import RemoteSoundness


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
    where = f", copied from {found.pulled_from}" if found.pulled_from else where
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


def verified_rows(asked: str, found: Sequence[ScriptCheckpoint]) -> list[dict[str, Any]]:
    """Return the results of reading them whole, in place; raises Refusal if a node does not answer."""
    elsewhere = [each for each in found if each.node]
    layout = run_named(asked)
    there: list[RemoteSoundness] = []
    if elsewhere and layout is not None:
        from torchdeck.use_cases.checkpoints.there import script_soundness_there

        there = script_soundness_there(layout, elsewhere, TerminalUi())
    known = dict(zip(map(id, elsewhere), there, strict=True))
    return [_verified_row(asked, each, known.get(id(each))) for each in found]


def verdict_here(asked: str, path: Path, *, by_script: bool = False) -> Verdict:
    """Verify a checkpoint on this machine, and record the verdict.

    Args:
        asked: what the command line names: a run, whose verdicts the window shows, or a folder.
        path: the checkpoint.
        by_script: its program wrote it by itself.
    """
    from torchdeck.runs.home import usual_home
    from torchdeck.use_cases.checkpoints.here import verify_here

    found = verify_here(usual_home(), path, by_script=by_script)
    if found.forgotten and not found.verdict.problems and run_named(asked) is not None:
        sys.stderr.write(f"torchdeck ckpt verify: {path.name}: {found.forgotten}\n")
    return found.verdict


def _verified_row(asked: str, found: ScriptCheckpoint, there: RemoteSoundness | None) -> dict[str, Any]:
    seen = verdict_here(asked, Path(found.saved.path), by_script=True) if there is None else there
    row: dict[str, Any] = {
        "name": f"{found.name} on {found.node}" if found.node else found.name,
        "step": found.saved.step,
        "path": found.saved.path,
        "sound": False if seen.problems else None if seen.unchecked else True,
        "problems": list(seen.problems),
        "unchecked": seen.unchecked,
    }
    return {**row, "nodes": [found.node]} if found.node else row


def run_export_of_script(found: ScriptCheckpoint, args: argparse.Namespace) -> int:
    """Export; raises Refusal and OSError."""
    if args.dtype or args.optimizer or args.ema:
        raise CkptUsageError("a script's weights are copied unchanged: no --dtype, --optimizer or --ema")
    layout = run_named(args.id)
    if found.node and layout is not None:
        from torchdeck.cli.runs.pull import transfer_progress
        from torchdeck.use_cases.checkpoints.there import bring_script_checkpoint

        place = bring_script_checkpoint(layout, found, TerminalUi(), transfer_progress())
        sys.stderr.write(f"torchdeck ckpt export: copied {found.name} from {found.node} to {place}\n")
        found = replace(found, saved=found.saved._replace(path=str(place)), node="", pulled_from=found.node)
    target = Path(args.output).expanduser()
    written = export_weights(found, target, force=args.force)
    total = sum(path.stat().st_size for path in written)
    sys.stdout.write(f"{target}: {found.name}, {size(total)} in {len(written)} files\n")
    return 0
