"""The node inventory that a command line is about, and how commands say what is wrong with it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path

from torchdeck.cli.exit_codes import REFUSED, USAGE
from torchdeck.contract.refusal import Refusal

Handler = Callable[[argparse.Namespace], int]


class NodesUsageError(Refusal):
    """A command line that makes no sense with this node inventory; the message says why."""

    page = "machines#the-node-inventory"

    is_usage = True


def inventory_file() -> Path:
    """Where the node inventory of this home lies. Raises NodesUsageError."""
    from torchdeck.nodes.inventory.file import inventory_path
    from torchdeck.runs.home import torchdeck_home

    try:
        return inventory_path(torchdeck_home())
    except Refusal as error:
        raise NodesUsageError(error.finding, fix=error.fix, page=error.page) from error


def says_what_is_wrong(handler: Handler) -> Handler:
    """A handler that says what is wrong: exit code 2 for book and command line, 3 for what cannot be done."""

    @wraps(handler)
    def guarded(args: argparse.Namespace) -> int:
        from torchdeck.cli.refusals import print_pages, print_problems
        from torchdeck.config.problems import ConfigError

        try:
            return handler(args)
        except ConfigError as error:
            print_problems(error.parts(), as_json=getattr(args, "json", False))
            return USAGE
        except Refusal as error:
            print(f"torchdeck: {error}", file=sys.stderr)
            print_pages(error)
            return USAGE if error.is_usage else REFUSED
        except (TimeoutError, PermissionError) as error:
            print(f"torchdeck: {error}", file=sys.stderr)
            return REFUSED

    return guarded
