"""`torchdeck trust`: folders and files whose code may run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.cli import output as exit_codes
from torchdeck.cli.output import json_text

if TYPE_CHECKING:
    from torchdeck.trust.entry import State, Trusted
    from torchdeck.trust.trust_list import TrustList

DESCRIPTION = """\
A recipe, its imports, its own Python, and commands in an SSH config run with all your permissions. Torchdeck
therefore asks once for each: a folder with everything below it, or a file as it is. It asks again after the
owner or mode has changed, and never trusts what other users can write.
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


def _told(act: Callable[[argparse.Namespace, TrustList], int]) -> Callable[[argparse.Namespace], int]:
    """Wrap a handler so that it prints errors."""

    def handler(args: argparse.Namespace) -> int:
        from torchdeck.cli.refusals import print_pages
        from torchdeck.contract.refusal import Refusal
        from torchdeck.runs.home import torchdeck_home
        from torchdeck.trust.trust_list import TrustList

        try:
            return act(args, TrustList(torchdeck_home()))
        except Refusal as error:
            print(f"torchdeck trust: {error}", file=sys.stderr)
            print_pages(error)
            return exit_codes.REFUSED

    return handler


def _list(args: argparse.Namespace, trusted: TrustList) -> int:
    entries = [(entry, entry.state()) for entry in trusted.entries()]
    if args.json:
        print(json_text({"trusted": [_document(*each) for each in entries]}, indent=1))
    elif not entries:
        print("nothing is trusted; `torchdeck trust add PATH` trusts a folder or file")
    for entry, state in () if args.json else entries:
        print(f"{entry.path}{f'   ({state})' if state.why else ''}")
    return exit_codes.SUCCEEDED


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


def _add(args: argparse.Namespace, trusted: TrustList) -> int:
    for path in args.paths:
        print(f"trusted {trusted.add(path.expanduser()).path}")
    return exit_codes.SUCCEEDED


def _remove(args: argparse.Namespace, trusted: TrustList) -> int:
    missing = [path for path in args.paths if not trusted.remove(path.expanduser())]
    for path in missing:
        said = f"{path} is not in the list; `torchdeck trust list` shows what is"
        print(f"torchdeck trust: {said}", file=sys.stderr)
    return exit_codes.USAGE if missing else exit_codes.SUCCEEDED
