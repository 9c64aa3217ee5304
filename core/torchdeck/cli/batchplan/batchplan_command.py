"""`torchdeck batchplan`: schedules of microbatches, made before a run. torch is not needed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from torchdeck.cli.batchplan.data_source import in_options
from torchdeck.cli.output import USAGE, is_unread

_DATASET_HELP = (
    "a text file (one sample per line), a folder of text files (one sample each), .jsonl with text, prompt "
    "and response, tokens, input_ids or length, or .npy of lengths; lengths of text are in bytes"
)
_NEEDS_LAYOUT = "needs a recipe with collate(samples, layout=None)"
_RUN_HELP = "run file of recipe byte-finetune: its training data, as the run reads it"
_LENGTHS_HELP = ".npy, .jsonl with length, or text with one whole number per line"


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "batchplan",
        help="build, show, shard and verify batch plans",
        description="Batch plans fix every microbatch in advance. torch is not needed.",
    )
    commands = parser.add_subparsers(dest="batchplan_command", metavar="COMMAND", required=True)
    _add_build(commands)
    _add_info(commands)
    _add_shard(commands)
    _add_verify(commands)


def _add_build(commands: argparse._SubParsersAction[Any]) -> None:
    parser = commands.add_parser(
        "build",
        help="plan microbatches from the lengths of samples",
        description="Plan every microbatch of every epoch: samples of similar length together, at most "
        "--token-budget tokens each. The same arguments give the same plan, byte for byte.",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--lengths", metavar="FILE", help=_LENGTHS_HELP)
    source.add_argument("--dataset", metavar="PATH", help=_DATASET_HELP)
    source.add_argument("--run", metavar="FILE", help=_RUN_HELP)
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        help="folder to write; default: the run's training.batch_plan, or ./batch_plan",
    )
    parser.add_argument("--tokenizer", metavar="PATH", help="file or folder to include in the fingerprint")
    parser.add_argument(
        "--token-budget",
        metavar="N",
        type=int,
        default=16384,
        help="maximum tokens per microbatch; default: 16384",
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="seed of the order; default: 0")
    parser.add_argument("--epochs", metavar="N", type=int, help="number of epochs; default: the run's, or 1")
    parser.add_argument(
        "--buckets",
        metavar="N|A,B,…",
        default="32",
        help="maximum number of length buckets, or their upper bounds; default: 32",
    )
    _add_rows(parser)
    _add_layout(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=_later("build"))


def _add_info(commands: argparse._SubParsersAction[Any]) -> None:
    parser = commands.add_parser(
        "info", help="show a plan, and what each rank does", description="Nothing is hashed."
    )
    _add_plan(parser, "a batch plan's folder")
    parser.add_argument("-w", "--world-size", metavar="W", type=int, help="number of ranks to share it among")
    parser.add_argument("-r", "--rank", metavar="R", type=int, help="show this rank; needs --world-size")
    _add_balance(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=_later("info"))


def _add_shard(commands: argparse._SubParsersAction[Any]) -> None:
    parser = commands.add_parser(
        "shard",
        help="write each rank's part as a plan of its own",
        description="Writes DIR/rank_0, DIR/rank_1, …: each is a batch plan that load_batch_plan opens.",
    )
    _add_plan(parser, "a batch plan's folder")
    parser.add_argument("-w", "--world-size", metavar="W", type=int, required=True, help="number of ranks")
    parser.add_argument("-o", "--output", metavar="DIR", required=True, help="folder to write")
    _add_balance(parser)
    _add_layout(parser)
    parser.set_defaults(handler=_later("shard"))


def _add_verify(commands: argparse._SubParsersAction[Any]) -> None:
    parser = commands.add_parser(
        "verify",
        help="hash a plan and check every sample, optionally against a data set",
        description="Exits with 1 if the plan is damaged, or stale for the given data.",
    )
    _add_plan(parser, "a batch plan's folder, or one that `shard` wrote")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--lengths", metavar="FILE", help=_LENGTHS_HELP)
    source.add_argument("--dataset", metavar="PATH", help=_DATASET_HELP)
    source.add_argument("--run", metavar="FILE", help=_RUN_HELP)
    parser.add_argument("--tokenizer", metavar="PATH", help="file or folder with which it was built")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=_later("verify"))


def _add_plan(parser: argparse.ArgumentParser, what: str) -> None:
    """The plan as an argument, or as the option -p; one of them is required."""
    group = parser.add_mutually_exclusive_group(required=True)
    # without a default: it would replace what -p has set
    group.add_argument("plan", metavar="PLAN", nargs="?", default=argparse.SUPPRESS, help=what)
    group.add_argument("-p", "--plan", dest="plan", metavar="PLAN", help="the same, as an option")


def _add_rows(parser: argparse.ArgumentParser) -> None:
    """How samples become rows of a microbatch."""
    parser.add_argument(
        "--max-length",
        metavar="N",
        type=int,
        help="longest sample or packed row; default: the context of the run's model, or the budget",
    )
    parser.add_argument(
        "--too-long",
        choices=("error", "truncate", "drop"),
        default="error",
        help=f"treatment of longer samples; truncate {_NEEDS_LAYOUT}",
    )
    parser.add_argument(
        "--empty", choices=("error", "drop"), default="error", help="treatment of samples of length 0"
    )
    parser.add_argument(
        "--pack",
        action="store_true",
        help=f"pack several samples into one row of --max-length; {_NEEDS_LAYOUT}",
    )
    parser.add_argument(
        "--pad-to",
        choices=("longest", "bucket"),
        default="longest",
        help="pad rows to the longest of the microbatch, or to the bucket's upper bound",
    )


def _add_balance(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--balance",
        choices=("none", "tokens", "attention"),
        default="none",
        help="none: rank i takes microbatches i, i + W, …; else: equal numbers or one fewer, largest first",
    )
    parser.add_argument(
        "--window",
        metavar="N",
        type=int,
        help="microbatches per rank that are balanced together; default: 16; needs --balance",
    )
    parser.add_argument(
        "--cost",
        metavar="C",
        type=int,
        help="with --balance attention: c in c·L + L², 6 × hidden size; default: 6144",
    )


def _add_layout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--layout",
        choices=("columns", "jsonl"),
        default="columns",
        help="columns: fast to open; jsonl: meta.json and epoch_N.jsonl, for other tools",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing batch plan")


def _later(command: str) -> Callable[[argparse.Namespace], int]:
    """The handler `run` of the command's module, imported when it is called; says what was refused."""

    def handler(args: argparse.Namespace) -> int:
        from importlib import import_module

        from torchdeck.data.batch_plan import BatchPlanError

        try:
            code: int = import_module(f"torchdeck.cli.batchplan.{command}").run(args)
            return code
        except BatchPlanError as error:
            refusal = in_options(str(error))
        except OSError as error:
            if is_unread(error):
                raise
            refusal = str(error) if error.filename is None else f"{error.filename}: {error.strerror}"
        sys.stderr.write(f"torchdeck batchplan {command}: {refusal}\n")
        return USAGE

    return handler
