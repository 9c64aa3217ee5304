"""`torchdeck ckpt export` and `convert`, carried out by a process that has torch."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from torchdeck.cli.ckpt.chosen_checkpoint import (
    WHERE,
    CkptUsageError,
    OnNodesError,
    chosen,
    of_script,
)
from torchdeck.cli.ckpt.script import (
    chosen_of_script,
    run_export_of_script,
)
from torchdeck.cli.output import USAGE
from torchdeck.cli.refusals import print_pages
from torchdeck.cli.terminal_ui import TerminalUi
from torchdeck.contract.refusal import Refusal
from torchdeck.quantities import size

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
        request["source"] = str(checkpoint_here(args.id, args.step, "torchdeck ckpt export").absolute())
    except CkptUsageError as error:
        return _say("export", error, USAGE)
    except (Refusal, OSError) as error:
        return _say("export", error, FAILED)
    return _exchange(
        "export", {**request, "dtype": args.dtype, "optimizer": args.optimizer, "ema": args.ema}, args.python
    )


def checkpoint_here(asked: str, step: str | None, command: str) -> Path:
    """The one checkpoint that is asked for, copied here from its nodes if it is not here.

    Raises:
        Refusal: it does not exist, or a node does not answer.
        OSError: it cannot be brought here.
    """
    try:
        (info,) = chosen(asked, step, every=False)
    except OnNodesError as error:
        from torchdeck.cli.runs.pull import transfer_progress
        from torchdeck.use_cases.checkpoints.there import bring_checkpoint

        source = bring_checkpoint(error.layout, error.which, TerminalUi(), transfer_progress())
        sys.stderr.write(f"{command}: copied {source.name} from its nodes to {source}\n")
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
        raise CkptUsageError(f"--ranks is {args.ranks}: expected 1 or more")
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
    from torchdeck.use_cases.checkpoints.there import ExchangeFailedError, exchange_in_process

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
