"""`torchdeck runs edit`: name, tags, note, pin and archive."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, replace
from typing import Any

from torchdeck.cli.output import SUCCEEDED, json_text
from torchdeck.cli.runs.chosen_run import ID_HELP, find_run, reports_refusals
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.folders.notes import Note, parse_tags


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "edit",
        help="rename, tag, pin or archive runs, and write a note on them",
        description="Change what you keep about runs; the runs themselves stay as they are. Pinned runs come "
        "first in the list and are not deleted. Archived runs are hidden in the list.",
    )
    parser.add_argument("ids", metavar="ID", nargs="+", help=ID_HELP)
    parser.add_argument("--name", help="another name for one run; empty: its own name")
    parser.add_argument("--tag", action="append", default=[], metavar="TAG", help="add a tag")
    parser.add_argument("--untag", action="append", default=[], metavar="TAG", help="remove a tag")
    parser.add_argument("--note", metavar="TEXT", help="replace the note")
    for mark, done in (("pin", "pinned"), ("archive", "archived")):
        either = parser.add_mutually_exclusive_group()
        for option, value in ((f"--{mark}", True), (f"--un{mark}", False)):
            text = f"{option[2:]} the runs"
            either.add_argument(option, dest=done, action="store_const", const=value, help=text)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Change the notes; 2: there is no such run, or nothing to change."""
    from torchdeck.use_cases.table.notes import change_notes

    if args.name is not None and len(args.ids) > 1:
        raise Refusal("--name is for one run", fix="give one ID")
    given = (args.name, args.note, args.pinned, args.archived)
    if not (args.tag or args.untag) and all(each is None for each in given):
        raise Refusal("nothing is to be changed", fix="give --name, --tag, --note, --pin or --archive")
    layouts = [find_run(asked) for asked in args.ids]
    ids = tuple(layout.root.name for layout in layouts)
    home = layouts[0].home.root
    notes = change_notes(
        home, ids, lambda note: _with(note, args), lambda text: print(f"torchdeck: {text}", file=sys.stderr)
    )
    if args.json:
        rows = [{"id": run_id, **asdict(notes.get(run_id, Note()))} for run_id in ids]
        print(json_text({"runs": rows}))
        return SUCCEEDED
    for run_id in ids:
        print(f"{run_id}: {_told(notes.get(run_id, Note()))}")
    return SUCCEEDED


def _with(note: Note, args: argparse.Namespace) -> Note:
    added = parse_tags(" ".join(args.tag))
    removed = parse_tags(" ".join(args.untag))
    tags = tuple(tag for tag in dict.fromkeys((*note.tags, *added)) if tag not in removed)
    return replace(
        note,
        tags=tags,
        text=note.text if args.note is None else args.note.strip(),
        name=note.name if args.name is None else " ".join(args.name.split()),
        pinned=note.pinned if args.pinned is None else args.pinned,
        archived=note.archived if args.archived is None else args.archived,
    )


def _told(note: Note) -> str:
    parts = {
        f"name {note.name}": note.name,
        f"tags {', '.join(note.tags)}": note.tags,
        "has a note": note.text,
        "pinned": note.pinned,
        "archived": note.archived,
    }
    return ", ".join(part for part, holds in parts.items() if holds) or "no name, tag, note or mark"
