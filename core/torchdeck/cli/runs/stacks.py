"""`torchdeck runs stacks`."""

from __future__ import annotations

import argparse
from typing import Any

from torchdeck.cli.output import SUCCEEDED, json_text
from torchdeck.cli.refusals import report
from torchdeck.cli.runs.chosen_run import ID_HELP, find_run, reports_refusals
from torchdeck.cli.terminal_ui import TerminalUi
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.examination import Examination, SharedStack, shared_stacks

_STATES = {"T": "stopped", "t": "held by a debugger", "D": "waits for a disk", "gone": "dead"}


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "stacks",
        help="show the current line of every rank, and which rank blocks the others",
        description="Show the current line of every rank, and which rank blocks the others. The stacks of "
        "all threads and the collectives are written into the run directory. The run continues.",
    )
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Examine the ranks, and print their stacks."""
    from torchdeck.use_cases.ranks.stacks import ask_for_stacks

    layout = find_run(args.id, active=True)
    try:
        found = ask_for_stacks(layout, "terminal", TerminalUi())
    except Refusal as error:
        return report(error, as_json=args.json)
    stacks = shared_stacks(found)
    print(json_text(_json(found, stacks)) if args.json else "\n".join(_lines(found, stacks)))
    return SUCCEEDED


def _json(found: Examination, stacks: list[SharedStack]) -> dict[str, Any]:
    return {
        "sentence": found.sentence,
        "kind": found.kind,
        "folder": str(found.layout.root),
        "stacks": [stack._asdict() for stack in stacks],
    }


def _lines(found: Examination, stacks: list[SharedStack]) -> list[str]:
    lines = [found.sentence, ""]
    for stack in stacks:
        state = f" ({_STATES[stack.state]})" if stack.state in _STATES else ""
        lines.append(f"{stack.line}{state}")
        lines += [f"  {frame}" for frame in stack.frames if stack.frames != (stack.place,)]
    return [*lines, "", f"All threads and collectives: {found.layout.root}"]
