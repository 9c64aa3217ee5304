"""`torchdeck trust`: folders and files whose code may run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.cli.output import REFUSED, SUCCEEDED, USAGE, json_text

if TYPE_CHECKING:
    from torchdeck.trust.trusted_entry import State, Trusted

DESCRIPTION = """\
A recipe, its imports, its own Python, and commands in an SSH config run with all your permissions. Torchdeck
therefore asks once for each: a folder with everything below it, or a file as it is. It asks again after the
owner or mode has changed, and never trusts what other users can write. NODE:PATH is the activation script of
a node, which is trusted by its content.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "trust",
        help="list, add and remove folders and files whose code may run",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True)
    listing = commands.add_parser("list", help="show what is trusted")
    listing.add_argument("--json", action="store_true", help="print one JSON object")
    listing.set_defaults(handler=_told(_list))
    for name, act, text in (
        ("add", _add, "trust a folder with everything below it, or a file as it is now"),
        ("remove", _remove, "stop trusting it"),
    ):
        command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        command.add_argument("paths", nargs="+", metavar="PATH", type=Path)
        command.set_defaults(handler=_told(act))


def _told(act: Callable[[argparse.Namespace, Path], int]) -> Callable[[argparse.Namespace], int]:
    """Wrap a handler so that it prints errors."""

    def handler(args: argparse.Namespace) -> int:
        from torchdeck.cli.refusals import print_pages
        from torchdeck.contract.refusal import Refusal
        from torchdeck.runs.home import torchdeck_home

        try:
            return act(args, torchdeck_home())
        except Refusal as error:
            print(f"torchdeck trust: {error}", file=sys.stderr)
            print_pages(error)
            return REFUSED

    return handler


def _list(args: argparse.Namespace, home: Path) -> int:
    from torchdeck.use_cases.trust import trusted_code

    found = trusted_code(home)
    if args.json:
        here = [_document(each.entry, each.state) for each in found if each.entry is not None]
        scripts = [each.path for each in found if each.entry is None]
        print(json_text({"trusted": here, "node_scripts": scripts}, indent=1))
        return SUCCEEDED
    for each in found:
        print(f"{each.path}{f'   ({each.state})' if each.state.why else ''}")
    if not found:
        print("nothing is trusted; `torchdeck trust add PATH` trusts a folder or file")
    return SUCCEEDED


def _document(entry: Trusted, state: State) -> dict[str, Any]:
    seen = entry.seen
    return {
        "path": entry.path,
        "kind": "file" if seen is not None and seen.content else "folder",
        "owner": None if seen is None else seen.owner,
        "mode": None if seen is None else f"{seen.mode:04o}",
        "state": str(state.condition),
        "why": state.why,
    }


def _add(args: argparse.Namespace, home: Path) -> int:
    from torchdeck.cli.terminal_ui import TerminalUi
    from torchdeck.use_cases.trust import trust

    for path in args.paths:
        print(f"trusted {trust(path, home, TerminalUi())}")
    return SUCCEEDED


def _remove(args: argparse.Namespace, home: Path) -> int:
    from torchdeck.use_cases.trust import distrust

    missing = [path for path in args.paths if not distrust(path, home)]
    for path in missing:
        said = f"{path} is not in the list; `torchdeck trust list` shows what is"
        print(f"torchdeck trust: {said}", file=sys.stderr)
    return USAGE if missing else SUCCEEDED
