"""A shell on a node that a command starts: in this terminal, in a window, or only printed."""

from __future__ import annotations

import argparse
import shlex
import subprocess

from torchdeck.cli.output import SUCCEEDED, json_text
from torchdeck.contract.refusal import Refusal
from torchdeck.shown_text import shown_line


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that start a shell."""
    window = "open a terminal window instead of using this terminal"
    parser.add_argument("--window", action="store_true", help=window)
    parser.add_argument("--print", action="store_true", help="print the command, and start nothing")
    parser.add_argument("--json", action="store_true", help="print it as one JSON object, and start nothing")


def start_shell(args: argparse.Namespace, argv: tuple[str, ...]) -> int:
    """Start a shell, and return its exit code; by the options, print the command instead.

    Raises:
        Refusal: it cannot be started.
    """
    from torchdeck.use_cases.opening.programs import Programs
    from torchdeck.use_cases.opening.terminal import in_terminal

    if args.window:
        argv = in_terminal(argv, Programs())
    if args.json or args.print:
        print(json_text({"argv": list(argv)}) if args.json else shown_line(shlex.join(argv)))
        return SUCCEEDED
    try:
        return max(0, subprocess.run(argv, check=False).returncode)
    except OSError as error:
        raise Refusal(f"{argv[0]} cannot be started", error.strerror) from error
