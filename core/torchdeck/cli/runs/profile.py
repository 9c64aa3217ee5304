"""`torchdeck runs profile`."""

from __future__ import annotations

import argparse
from typing import Any

from torchdeck.cli.output import REFUSED, SUCCEEDED, json_text
from torchdeck.cli.refusals import report
from torchdeck.cli.runs.chosen_run import ID_HELP, find_run, reports_refusals
from torchdeck.cli.terminal_ui import TerminalUi
from torchdeck.contract.doctor.rank_profile import MOST_RANKS
from torchdeck.contract.refusal import Refusal


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "profile",
        help="record a trace of chosen ranks for some seconds",
        description="Record a trace of chosen ranks for some seconds with torch's profiler, and print its "
        "path.\nOpen it in https://ui.perfetto.dev or chrome://tracing. The program continues. Ranks with a\n"
        "profiler of their own, or without Torchdeck's heartbeat, are sampled by py-spy if it is installed.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument(
        "--ranks",
        type=_ranks,
        default=(),
        metavar="0,3-5",
        help="ranks to profile (default: all of up to 8, else rank 0)",
    )
    parser.add_argument(
        "--seconds", type=float, default=5.0, metavar="S", help="duration, up to 60 s (default: %(default)g)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=run)


def _ranks(text: str) -> tuple[int, ...]:
    from torchdeck.use_cases.ranks.profile import ranks_in

    try:
        return ranks_in(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no list of up to {MOST_RANKS} ranks such as 0,3-5"
        ) from None


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Profile the ranks, and print the paths; 0 if every rank has a trace or samples, else 3."""
    from torchdeck.use_cases.ranks.profile import profile_ranks

    layout = find_run(args.id, active=True)
    try:
        found = profile_ranks(layout, args.ranks, args.seconds, "terminal", TerminalUi())
    except Refusal as error:
        return report(error, as_json=args.json)
    if args.json:
        ranks = [
            {"rank": each.rank, "path": None if each.path is None else str(each.path), "note": each.note}
            for each in found
        ]
        print(json_text({"ranks": ranks}))
    else:
        for each in found:
            note = f" ({each.note})" if each.path is not None and each.note else ""
            print(f"rank {each.rank}: {each.note if each.path is None else each.path}{note}")
    return SUCCEEDED if all(each.path is not None for each in found) else REFUSED
