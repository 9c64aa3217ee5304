"""The node book that a command line is about, and how commands say what is wrong with it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path

from torchdeck.cli.exit_codes import REFUSED, USAGE

Handler = Callable[[argparse.Namespace], int]


class NodesUsageError(Exception):
    """A command line that makes no sense with this node book; the message says why."""


def book_file() -> Path:
    """Where the node book of this home lies. Raises HomeError."""
    from torchdeck.nodes.book.file import book_path
    from torchdeck.runs.home import torchdeck_home

    return book_path(torchdeck_home())


def says_what_is_wrong(handler: Handler) -> Handler:
    """A handler that says what is wrong: exit code 2 for book and command line, 3 for what cannot be done."""

    @wraps(handler)
    def guarded(args: argparse.Namespace) -> int:
        from torchdeck.cli.problems import print_problems
        from torchdeck.config.problems import ConfigError
        from torchdeck.config.toml.toml_text import EditError
        from torchdeck.nodes.book.names import NodeNamesError
        from torchdeck.nodes.ssh.errors import TargetError
        from torchdeck.nodes.ssh.keyring_store import KeyringError
        from torchdeck.runs.home import HomeError

        try:
            return handler(args)
        except ConfigError as error:
            print_problems(error.problems, as_json=getattr(args, "json", False))
            return USAGE
        except (HomeError, NodeNamesError, NodesUsageError, EditError, TargetError) as error:
            print(f"torchdeck: {error}", file=sys.stderr)
            return USAGE
        except (TimeoutError, PermissionError, KeyringError) as error:
            print(f"torchdeck: {error}", file=sys.stderr)
            return REFUSED

    return guarded
