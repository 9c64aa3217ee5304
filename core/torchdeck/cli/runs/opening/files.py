"""`torchdeck runs files`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.cli.nodes.command_errors import reports_refusals
from torchdeck.cli.output import REFUSED, SUCCEEDED, json_text
from torchdeck.cli.runs.chosen_run import ID_HELP, find_run
from torchdeck.cli.terminal_ui import TerminalUi
from torchdeck.quantities import counted, moment, size
from torchdeck.shown_text import shown_line

if TYPE_CHECKING:
    from torchdeck.runs.folders.file_tree import FileEntry


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "files",
        help="list or fetch files of a run's directory on one of its nodes",
        description="List a folder of the run's directory on its first node or on NODE. With --to, copy "
        "files and folders to DIR/RUN/NODE; an interrupted copy continues. Links are left out.",
    )
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument(
        "paths", metavar="PATH", nargs="*", help="below the run's directory; default: all of it"
    )
    parser.add_argument("--node", metavar="NODE", help="another node of the run")
    parser.add_argument("--to", metavar="DIR", help="copy them to this folder")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """List or copy; 2 if there is no such run, 3 if its node does not answer or files are not here."""
    from torchdeck.use_cases.nodes.run_files import list_files

    layout, paths = find_run(args.id), [path.strip("/") for path in args.paths] or [""]
    if args.to is not None:
        return _fetch(args, paths)
    tree = list_files(layout, args.node, TerminalUi())
    found = [entry for path in paths for entry in tree.at(path)]
    if args.json:
        print(json_text({"id": layout.root.name, "entries": [_document(entry) for entry in found]}, indent=1))
        return SUCCEEDED
    for entry in found:
        name = shown_line(entry.path) + ("/" if entry.is_folder else "")
        print(f"{size(entry.size):>10}  {moment(entry.modified / 1e9)}  {name}")
    return SUCCEEDED


def _fetch(args: argparse.Namespace, paths: list[str]) -> int:
    from torchdeck.cli.runs.pull import transfer_progress
    from torchdeck.use_cases.nodes.run_files import fetch_files

    to = Path(args.to).expanduser().absolute()
    with transfer_progress() as told:
        found = fetch_files(
            find_run(args.id),
            args.node,
            paths,
            to,
            TerminalUi(),
            lambda _what, done, total: told("files", done, total),
        )
    if args.json:
        document = {"folder": str(found.folder), "files": found.files, "problems": list(found.problems)}
        print(json_text(document, indent=1))
    else:
        print(f"{counted(found.files, 'file')} in {shown_line(str(found.folder))}")
    for problem in found.problems:
        print(f"torchdeck: {shown_line(problem)}", file=sys.stderr)
    return REFUSED if found.problems else SUCCEEDED


def _document(entry: FileEntry) -> dict[str, Any]:
    return {
        "path": entry.path,
        "kind": "folder" if entry.is_folder else "file",
        "bytes": entry.size,
        "modified": entry.modified / 1e9,
    }
