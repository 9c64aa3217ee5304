"""`torchdeck runs diff`."""

from __future__ import annotations

import argparse
from typing import Any

from torchdeck.cli.output import SUCCEEDED, json_text
from torchdeck.cli.runs.chosen_run import ID_HELP, find_run, reports_refusals
from torchdeck.shown_text import shown
from torchdeck.use_cases.code import changes, recorded_state


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "diff",
        help="show how the code of a run differs from its commit, or from another run's",
        description="Show the changes of a run's code since the git commit that it was started from. With "
        "OTHER: the changes from the code of OTHER to that of ID, by the copies of both.",
    )
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument("other", metavar="OTHER", nargs="?", help="another run")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Print a diff; 2: there is no such run, or nothing to compare."""
    layout = find_run(args.id)
    if args.other is not None:
        lines = list(changes(find_run(args.other), layout, most=None).lines)
        if args.json:
            print(json_text({"id": layout.root.name, "diff": lines}))
        else:
            print("\n".join(map(shown, lines)) if lines else "the code is the same")
        return SUCCEEDED
    state = recorded_state(layout)
    if args.json:
        print(json_text({"id": layout.root.name, **state.to_json()}))
        return SUCCEEDED
    print(state.sentence)
    for name in state.untracked:
        print(f"untracked: {shown(name)}")
    if state.diff:
        print(shown(state.diff.rstrip("\n")))
    return SUCCEEDED
