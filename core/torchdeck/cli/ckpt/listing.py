"""`torchdeck ckpt list`: what lies there, how good each is, and why it is kept."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from torchdeck.cli.ckpt.lookup import CkptUsageError, checkpoints_of, how_to_pull, on_a_node, retention_of
from torchdeck.cli.exit_codes import USAGE
from torchdeck.cli.json_text import json_text
from torchdeck.quantities import size

if TYPE_CHECKING:
    from torchdeck.contract.checkpoints.listing import CheckpointInfo
    from torchdeck.runs.folders.checkpoints import Standing
    from torchdeck.runs.state import CheckpointSeen


def run_list(args: argparse.Namespace) -> int:
    """Print what lies in the run's checkpoint directory; 2 when there is no such run."""
    from torchdeck.runs.folders.checkpoints import standings

    try:
        found = checkpoints_of(args.id)
        rows = list(zip(found, standings(found, retention_of(args.id)), strict=True))
        elsewhere = on_a_node(args.id, found)
    except CkptUsageError as error:
        return refuse("list", error)
    if args.json:
        print_json([*(_row(*pair) for pair in rows), *([_row_of_node(elsewhere)] if elsewhere else [])])
        return 0
    if not found and elsewhere is None:
        sys.stdout.write("no checkpoints yet\n")
    for info, standing in rows:
        sys.stdout.write(_line(info, standing) + "\n")
    if elsewhere is not None:
        sys.stdout.write(f"{how_to_pull(elsewhere, args.id)}\n")
    return 0


def print_json(value: Any) -> None:
    """Print a value for programs."""
    sys.stdout.write(json_text(value, indent=2) + "\n")


def refuse(command: str, error: CkptUsageError) -> int:
    """Say what is wrong with the command line; the exit code."""
    sys.stderr.write(f"torchdeck ckpt {command}: {error}\n")
    return USAGE


def _row(info: CheckpointInfo, standing: Standing) -> dict[str, Any]:
    manifest = info.manifest
    return {
        "step": info.step,
        "name": info.path.name,
        "path": str(info.path),
        "node": "",
        "complete": info.complete,
        "why": info.why,
        "size": info.size,
        "created": manifest.created if manifest else None,
        "seconds": manifest.seconds if manifest else None,
        "world_size": manifest.world_size if manifest else None,
        "strategy": manifest.strategy if manifest else None,
        "run_id": manifest.run_id if manifest else None,
        "attempt": manifest.attempt if manifest else None,
        "position": dict(manifest.position) if manifest else None,
        "metrics": dict(manifest.metrics) if manifest else {},
        "best": standing.best,
        "kept": list(standing.kept),
    }


def _row_of_node(seen: CheckpointSeen) -> dict[str, Any]:
    """Return the row of a checkpoint that a node reported and that is not here."""
    return {
        "step": seen.step,
        "name": PurePath(seen.path).name,
        "path": seen.path,
        "node": seen.node,
        "complete": True,
        "why": "",
        "size": seen.size,
        "created": seen.time,
        "seconds": seen.seconds,
    }


def _line(info: CheckpointInfo, standing: Standing) -> str:
    if info.manifest is None or not info.complete:
        return f"{info.path.name:<16} {size(info.size):>10}  not complete: {info.why}"
    manifest = info.manifest
    created = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(manifest.created))
    ranks = "1 rank" if manifest.world_size == 1 else f"{manifest.world_size} ranks"
    parts = [
        f"{info.path.name:<16} {size(info.size):>10}  step {info.step}, {manifest.strategy} on {ranks}",
        created,
        *([f"saved in {manifest.seconds:.2f} s"] if manifest.seconds else []),  # not in what was converted
        *(f"{name} {number:.6g}" for name, number in sorted(manifest.metrics.items())),
    ]
    best = " (best)" if standing.best else ""
    reasons = [why for why in standing.kept if why != info.path.name]
    kept = f"; kept: {', '.join(reasons)}" if reasons else ""
    return ", ".join(parts) + best + kept
