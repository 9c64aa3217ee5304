"""How commands about nodes print errors."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path

from torchdeck.cli.output import REFUSED, USAGE
from torchdeck.contract.refusal import Refusal

Handler = Callable[[argparse.Namespace], int]


def nodes_home() -> Path:
    """Return TORCHDECK_HOME. Raises NodesUsageError if it cannot be used."""
    from torchdeck.runs.home import torchdeck_home
    from torchdeck.use_cases.nodes.chosen import NodesUsageError

    try:
        return torchdeck_home()
    except Refusal as error:
        raise NodesUsageError(error.what, error.why, error.fix, page=error.page) from error


def reports_refusals(handler: Handler) -> Handler:
    """Wrap a handler to print errors; exit code 2 if inventory or command line is wrong, else 3."""

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
