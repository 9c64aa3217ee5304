"""`torchdeck docs`: the documentation that is installed with Torchdeck, in the browser."""

from __future__ import annotations

import argparse
import threading
import webbrowser
from typing import Any

from torchdeck.cli.output import SUCCEEDED
from torchdeck.cli.refusals import report
from torchdeck.use_cases.docs import INDEX, DocsError, DocsServer


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "docs",
        help="open the documentation in the browser",
        description="Serves the installed documentation on 127.0.0.1 and opens it in the browser. "
        "It needs no network. Ctrl-C ends it.",
    )
    parser.add_argument(
        "page",
        metavar="PAGE",
        nargs="?",
        default=INDEX,
        help="the page to open, such as trouble/hangs or reference/run-toml#training",
    )
    parser.add_argument("--no-browser", action="store_true", help="print the address and open no browser")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Serve the documentation until Ctrl-C; 2 if it is not there or has no such page."""
    server = DocsServer()
    try:
        address = server.address(args.page)
    except DocsError as error:
        return report(error, command="torchdeck docs")
    print(f"The documentation is at {address} (Ctrl-C ends)", flush=True)
    try:
        if not args.no_browser:
            webbrowser.open(address)
        threading.Event().wait()
    except KeyboardInterrupt:
        print()
    finally:
        server.close()
    return SUCCEEDED
