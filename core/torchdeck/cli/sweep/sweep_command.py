"""`torchdeck sweep`: run many variants of a run file, and find the best."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from torchdeck.cli.run_source import TRUST_HELP, add_run_source
from torchdeck.cli.runs.chosen_run import whole_number

VERBS = ("start", "list", "show", "resume", "extend", "stop")
_OVER_HELP = "a key and its values: LOW..HIGH, LOW..HIGH:log, LOW..HIGH:int, or VALUE,VALUE; may be repeated"
_ID_HELP = "a sweep's id, its name, the random end of its id, or `latest`"
_DRIVES = (
    "The command starts the runs, watches them and prints what happens. It may end or be killed: its runs "
    "continue, and `torchdeck sweep resume ID` takes them up."
)


def with_verb(arguments: list[str]) -> list[str]:
    """Return the words of `torchdeck sweep RUN.toml …` as those of `torchdeck sweep start RUN.toml …`."""
    if arguments[:1] == ["sweep"] and arguments[1:2] and arguments[1] not in (*VERBS, "-h", "--help"):
        return ["sweep", "start", *arguments[1:]]
    return arguments


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its commands to the command line."""
    parser = subparsers.add_parser(
        "sweep",
        help="run many variants of a run file, and find the best",
        description="Runs many variants of a run file, each an ordinary run, and finds the best. "
        "`torchdeck sweep RUN.toml --over KEY=VALUES` is short for `torchdeck sweep start RUN.toml …`.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_start(commands)
    listed = commands.add_parser("list", help="list sweeps, the newest first")
    shown = commands.add_parser("show", help="show the trials of a sweep, the best, and what matters")
    resumed = commands.add_parser(
        "resume", help="continue a sweep that was stopped or interrupted", description=_DRIVES
    )
    extended = commands.add_parser(
        "extend",
        help="add trials, or change the values of further trials",
        description=f"Trials that have begun keep their values. {_DRIVES}",
    )
    extended.add_argument("--trials", type=whole_number, metavar="N", default=0, help="N further trials")
    extended.add_argument("--over", action="append", default=[], metavar="KEY=VALUES", help=_OVER_HELP)
    stopped = commands.add_parser(
        "stop", help="stop all runs of a sweep after the step with a checkpoint, and start no further one"
    )
    for command in (resumed, extended):
        command.add_argument("--detach", action="store_true", help="return at once; the sweep continues")
    for command in (shown, resumed, extended, stopped):
        command.add_argument("id", metavar="ID", help=_ID_HELP)
    for command, verb in (
        (listed, "list_all"),
        (shown, "show"),
        (resumed, "resume"),
        (extended, "extend"),
        (stopped, "stop"),
    ):
        command.add_argument("--json", action="store_true", help="print JSON")
        command.set_defaults(handler=_later(verb))


def _add_start(commands: argparse._SubParsersAction[Any]) -> None:
    parser = commands.add_parser(
        "start",
        help="start a sweep",
        usage="torchdeck sweep [start] RUN.toml --over KEY=VALUES --metric NAME [options] [-- ARGUMENTS]",
        description=f"{_DRIVES} Options may also be in [sweep] of the run file. {{KEY}} in run.args "
        "is replaced by the value of a trial.",
    )
    add_run_source(parser)
    parser.add_argument("--over", action="append", default=[], metavar="KEY=VALUES", help=_OVER_HELP)
    parser.add_argument(
        "--strategy",
        choices=("grid", "zip", "random", "tpe"),
        help="how points are chosen; default: grid if --trials covers it, else random",
    )
    parser.add_argument("--trials", metavar="N", help="number of points to try")
    parser.add_argument(
        "--metric", metavar="NAME", help="metric to judge by: its last value, or loss:best, loss@1000"
    )
    parser.add_argument(
        "--direction", choices=("min", "max"), help="which values are good; default: by the metric's name"
    )
    parser.add_argument(
        "--prune", choices=("asha", "median"), help="stop trials early that are worse than others"
    )
    parser.add_argument("--prune-after", metavar="STEP", help="first step at which trials are pruned")
    parser.add_argument("--prune-factor", metavar="N", help="asha: one in N continues; default: 3")
    parser.add_argument("--seeds", metavar="N", help="run each point with N seeds; default: 1")
    parser.add_argument("--seed", metavar="N", help="seed of random points; default: 0")
    parser.add_argument("--at-once", metavar="N", help="most runs at a time; default: 1")
    parser.add_argument("--trust", action="store_true", help=TRUST_HELP)
    parser.add_argument("--detach", action="store_true", help="print the sweep's id; the sweep continues")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.set_defaults(handler=_later("start"))


def _later(verb: str) -> Callable[[argparse.Namespace], int]:
    """Return the handler of a command, imported when it is called."""

    def handler(args: argparse.Namespace) -> int:
        from torchdeck.cli.sweep import sweep_verbs

        code: int = getattr(sweep_verbs, verb)(args)
        return code

    return handler
