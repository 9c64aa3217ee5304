"""`torchdeck ckpt`: what checkpoints a run has, and whether they are sound; files for other tools."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from torchdeck.cli.ckpt.lookup import (
    WHERE,
    CkptUsageError,
    OnNodesError,
    checkpoints_of,
    chosen,
    how_to_pull,
    of_script,
    on_a_node,
    retention_of,
)
from torchdeck.cli.ckpt.script import (
    chosen_of_script,
    list_line,
    list_row,
    run_export_of_script,
    verified_row,
)
from torchdeck.cli.output import USAGE, json_text
from torchdeck.cli.refusals import print_pages, report
from torchdeck.cli.terminal_ui import TerminalUi
from torchdeck.contract.refusal import Refusal, refusal_of
from torchdeck.quantities import size

if TYPE_CHECKING:
    from torchdeck.contract.checkpoints.listing import CheckpointInfo
    from torchdeck.runs.folders.checkpoints import Standing
    from torchdeck.runs.state import CheckpointSeen
    from torchdeck.use_cases.checkpoints import Verified


DAMAGED = 1


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "ckpt",
        help="list, verify, export and convert checkpoints",
        description="List, verify, export and convert the checkpoints of runs.",
    )
    commands = parser.add_subparsers(dest="ckpt_command", metavar="COMMAND", required=True)
    shown = commands.add_parser("list", help="show a run's checkpoints", description="Nothing is hashed.")
    shown.add_argument("id", metavar="ID", help=WHERE)
    shown.add_argument("--json", action="store_true", help="an array of objects")
    shown.set_defaults(handler=run_list)
    checked = commands.add_parser(
        "verify",
        help="hash every file of a checkpoint",
        description="Compare every file of a checkpoint with its manifest, on the nodes that have it unless "
        "it is here. Exits with 1 if a file is damaged.",
    )
    checked.add_argument("id", metavar="ID", help=WHERE)
    checked.add_argument("step", metavar="STEP", nargs="?", help="a step or `final`; default: the newest")
    checked.add_argument("--all", action="store_true", help="every checkpoint of the run")
    checked.add_argument("--json", action="store_true", help="an array of objects")
    checked.set_defaults(handler=run_verify)
    add_parsers(commands)


def run_verify(args: argparse.Namespace) -> int:
    """Hash what was asked for, where it lies.

    1 when something is damaged, 2 when it is not there, 3 when a node that has it does not answer.
    """
    from torchdeck.contract.checkpoints.verification import verify

    there: list[Verified] = []
    try:
        if own := of_script(args.id):
            rows = [verified_row(each) for each in chosen_of_script(own, args.step, every=args.all)]
            return _say_verified(rows, as_json=args.json)
        asked: Sequence[CheckpointInfo] = chosen(args.id, args.step, every=args.all)
    except OnNodesError as error:
        from torchdeck.cli.runs.pull import transfer_progress
        from torchdeck.use_cases.checkpoints import verify_there

        asked = error.here
        here = {info.path.name for info in asked if info.complete}
        try:
            there = verify_there(error.layout, error.which, TerminalUi(), transfer_progress(), here)
        except (Refusal, OSError) as unreached:
            return report(refusal_of(unreached), as_json=args.json, command="torchdeck ckpt verify")
    except CkptUsageError as error:
        return refuse("verify", error)
    results = [*(_result_here(info, verify(info.path)) for info in asked), *map(_result_there, there)]
    return _say_verified(results, as_json=args.json)


def _say_verified(results: Sequence[dict[str, Any]], *, as_json: bool) -> int:
    if as_json:
        print_json([{key: value for key, value in row.items() if key != "name"} for row in results])
    else:
        for row in results:
            sys.stdout.write(f"{row['name']}: {'sound' if row['sound'] else 'damaged'}\n")
            sys.stdout.writelines(f"  {problem}\n" for problem in row["problems"])
    return DAMAGED if not all(row["sound"] for row in results) else 0


def _result_here(info: CheckpointInfo, problems: Sequence[str]) -> dict[str, Any]:
    return {
        "name": info.path.name,
        "step": info.step,
        "path": str(info.path),
        "sound": not problems,
        "problems": list(problems),
    }


def _result_there(found: Verified) -> dict[str, Any]:
    problems = list(found.problems)
    if found.unseen:
        problems.append(
            f"{len(found.unseen)} files, such as {found.unseen[0]}, are on no node of the run that answers"
        )
    return {
        "name": f"{found.name} on {', '.join(found.nodes)}",
        "step": found.step,
        "path": found.path,
        "nodes": list(found.nodes),
        "sound": not problems,
        "problems": problems,
    }


# `torchdeck ckpt list`: what lies there, how good each is, and why it is kept.


def run_list(args: argparse.Namespace) -> int:
    """Print what lies in the run's checkpoint directory; 2 when there is no such run."""
    from torchdeck.runs.folders.checkpoints import standings

    try:
        found = checkpoints_of(args.id)
        rows = list(zip(found, standings(found, retention_of(args.id)), strict=True))
        own = of_script(args.id)
        elsewhere = None if own else on_a_node(args.id, found)
    except CkptUsageError as error:
        return refuse("list", error)
    if args.json:
        others = [_row_of_node(elsewhere)] if elsewhere else []
        print_json([*(_row(*pair) for pair in rows), *map(list_row, own), *others])
        return 0
    if not found and not own and elsewhere is None:
        sys.stdout.write("no checkpoints yet\n")
    for info, standing in rows:
        sys.stdout.write(_line(info, standing) + "\n")
    sys.stdout.writelines(f"{list_line(each)}\n" for each in own)
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


# `torchdeck ckpt export` and `convert`; torch works in a process of its own.

FAILED = 1
_DTYPES = ("fp32", "bf16", "fp16")


def add_parsers(commands: argparse._SubParsersAction[Any]) -> None:
    """Add both commands to `ckpt`."""
    export = commands.add_parser(
        "export",
        help="write a checkpoint's weights as safetensors and JSON",
        description="Write model.safetensors (weights under the names they have in the model) and model.json "
        "into a new folder, for other tools. Every file of the checkpoint is hashed before it is read.",
    )
    export.add_argument("id", metavar="ID", help=WHERE)
    export.add_argument("step", metavar="STEP", nargs="?", help="a step or `final`; default: the newest")
    export.add_argument("-o", "--output", metavar="OUT", required=True, help="folder to create")
    export.add_argument(
        "--dtype", choices=_DTYPES, help="number format of floating-point weights; default: as saved"
    )
    export.add_argument("--optimizer", action="store_true", help="include the optimizer's state")
    export.add_argument(
        "--ema", action="store_true", help="export the moving average of the weights (training.ema) instead"
    )
    _add_common(export)
    export.set_defaults(handler=run_export)
    convert = commands.add_parser(
        "convert",
        help="convert a checkpoint to one file, or to one that runs resume from",
        description="Between checkpoints of runs (sharded) and a folder of safetensors and JSON that holds "
        "all of one (single): there and back it resumes bit-exact at the world size it was saved at. SRC may "
        "also be weights in a .pt or .safetensors file, or a folder that DeepSpeed wrote.",
    )
    convert.add_argument("source", metavar="SRC", help="a checkpoint's folder, or a file of weights")
    convert.add_argument("target", metavar="DST", help="folder to create")
    convert.add_argument("--to", choices=("sharded", "single"), required=True, help="kind of DST")
    convert.add_argument(
        "--ranks",
        metavar="N",
        type=int,
        help="number of files that tensors are distributed over, for sharded (default: 1)",
    )
    convert.add_argument(
        "--trust", action="store_true", help="read DeepSpeed's pickles, which executes code in them"
    )
    _add_common(convert)
    convert.set_defaults(handler=run_convert)


def run_export(args: argparse.Namespace) -> int:
    """Export; 1 when it cannot be done, 2 when what was asked for is not there.

    A checkpoint that lies on nodes is brought into the run's directory first.
    """
    try:
        if own := of_script(args.id):
            return run_export_of_script(chosen_of_script(own, args.step, every=False)[0], args)
        request = _request(args, Path(), Path(args.output), "export")
        request["source"] = str(_source(args).absolute())
    except CkptUsageError as error:
        return _say("export", error, USAGE)
    except (Refusal, OSError) as error:
        return _say("export", error, FAILED)
    return _exchange(
        "export", {**request, "dtype": args.dtype, "optimizer": args.optimizer, "ema": args.ema}, args.python
    )


def _source(args: argparse.Namespace) -> Path:
    """The checkpoint to export, here. Raises Refusal, and OSError if it cannot be brought here."""
    try:
        (info,) = chosen(args.id, args.step, every=False)
    except OnNodesError as error:
        from torchdeck.cli.runs.pull import transfer_progress
        from torchdeck.use_cases.checkpoints import bring_checkpoint

        source = bring_checkpoint(error.layout, error.which, TerminalUi(), transfer_progress())
        sys.stderr.write(f"torchdeck ckpt export: brought {source.name} from its nodes to {source}\n")
        return source
    return info.path


def run_convert(args: argparse.Namespace) -> int:
    """Convert; 1 when it cannot be done, 2 when what was asked for is not there."""
    source = Path(args.source).expanduser()
    try:
        _check_convert(args, source)
        request = _request(args, source, Path(args.target), args.to)
    except CkptUsageError as error:
        return _say("convert", error, USAGE)
    return _exchange("convert", {**request, "ranks": args.ranks, "trust": args.trust}, args.python)


def _check_convert(args: argparse.Namespace, source: Path) -> None:
    if not source.exists():
        raise CkptUsageError(f"there is no {source}: give a checkpoint's folder, or a file of weights")
    if args.ranks is not None and args.ranks < 1:
        raise CkptUsageError(f"--ranks is {args.ranks}: right is 1 or more")
    if args.ranks is not None and args.to != "sharded":
        raise CkptUsageError("--ranks goes with --to sharded; --max-shard-size divides single files")


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-shard-size",
        metavar="SIZE",
        default="5GB",
        help="largest file; more are written if needed (default: 5GB)",
    )
    parser.add_argument("--force", action="store_true", help="replace an existing checkpoint or export")
    parser.add_argument("--python", metavar="PATH", help="interpreter that has torch; default: this one")


def _request(args: argparse.Namespace, source: Path, target: Path, to: str) -> dict[str, Any]:
    from torchdeck.config.values.numbers import parse_size

    try:
        largest = int(parse_size(args.max_shard_size))
    except ValueError as error:
        raise CkptUsageError(f"--max-shard-size: {error}") from None
    if largest < 1:
        raise CkptUsageError("--max-shard-size is 0: give a size such as 5GB")
    return {
        "source": str(source.absolute()),
        "target": str(target.expanduser().absolute()),
        "to": to,
        "force": args.force,
        "max_file": largest,
        "dtype": None,
        "optimizer": True,
        "ema": False,
        "trust": False,
        "ranks": None,
    }


def _exchange(command: str, request: dict[str, Any], python: str | None) -> int:
    from torchdeck.cli.batchplan.progress import ProgressLine
    from torchdeck.use_cases.checkpoints import ExchangeFailedError, exchange_in_process

    progress = ProgressLine(number=size)
    try:
        try:
            done = exchange_in_process(request, python or sys.executable, progress)
        finally:
            progress.end()
    except ExchangeFailedError as error:
        return _say(command, error, FAILED)
    files = "1 file" if done["files"] == 1 else f"{done['files']} files"
    sys.stdout.write(f"{done['path']}: step {done['step']}, {size(done['size'])} in {files}\n")
    if done["notice"]:
        sys.stdout.write(f"  {done['notice']}\n")
    return 0


def _say(command: str, error: Exception, code: int) -> int:
    sys.stderr.write(f"torchdeck ckpt {command}: {error}\n")
    if isinstance(error, Refusal):
        print_pages(error)
    return code
