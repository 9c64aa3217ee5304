"""`torchdeck runs open`."""

from __future__ import annotations

import argparse
import shlex
import subprocess
from typing import Any

from torchdeck.cli.output import SUCCEEDED, json_text
from torchdeck.cli.runs.chosen_run import ID_HELP, find_run, reports_refusals, whole_number
from torchdeck.contract.refusal import Refusal
from torchdeck.shown_text import shown_line

_FAILED = 1
"""Exit code if the editor fails."""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "open",
        help="open your editor at the line of your code at which a run failed",
        description="Open your editor at the last line of your own code in the traceback of the failure, or "
        "at PLACE. The editor is that of VISUAL or EDITOR. VS Code opens files of other nodes, too.",
    )
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument("place", metavar="PLACE", nargs="?", help="a line of a log, or FILE:LINE")
    parser.add_argument("--rank", metavar="RANK", type=whole_number, help="the rank whose output names PLACE")
    parser.add_argument(
        "--editor",
        metavar="EDITOR",
        help="vscode, jetbrains, visual, or a command with {file}, {line} and {column}",
    )
    parser.add_argument("--print", action="store_true", help="print the command or URL, and start nothing")
    parser.add_argument("--json", action="store_true", help="print it as one JSON object, and start nothing")
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Open it; 1: the editor failed, 2: there is no such run, place or editor."""
    from torchdeck.runs.failure import failed_place
    from torchdeck.runs.failures.code_place import place_in
    from torchdeck.runs.follower import read_run
    from torchdeck.use_cases.opening.editor import EditorUrl
    from torchdeck.use_cases.opening.programs import Programs
    from torchdeck.use_cases.opening.start import editor_at

    layout, programs, rank = find_run(args.id), Programs(), args.rank
    if args.place is None:
        view = read_run(layout)
        place = failed_place(view)
        if rank is None and view.first_failure is not None:
            rank = view.first_failure.rank
    else:
        place = place_in(args.place)
    if place is None:
        what = "the failure" if args.place is None else shown_line(args.place)
        raise Refusal(f"{what} names no line of your code", fix="name one, such as train.py:12")
    found = editor_at(layout, place, rank, _editor(args.editor), programs)
    argv = ("xdg-open", found.url) if isinstance(found, EditorUrl) else found.argv
    if args.json:
        print(json_text({"url": found.url} if isinstance(found, EditorUrl) else {"argv": list(found.argv)}))
        return SUCCEEDED
    if args.print:
        print(shown_line(found.url if isinstance(found, EditorUrl) else shlex.join(argv)))
        return SUCCEEDED
    try:
        return _FAILED if subprocess.run(argv, check=False).returncode else SUCCEEDED
    except OSError as error:
        raise Refusal(f"{argv[0]} cannot be started", error.strerror) from error


def _editor(written: str | None) -> Any:
    from torchdeck.use_cases.opening.editor_choice import Editor, EditorKind

    if written is None:
        return Editor()
    is_kind = written in tuple(EditorKind)
    return Editor(EditorKind(written)) if is_kind else Editor(EditorKind.CUSTOM, written)
