"""Home of the queue's commands, and how they print errors."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import wraps
from pathlib import Path

from torchdeck.cli.refusals import report
from torchdeck.contract.refusal import Refusal

Handler = Callable[[argparse.Namespace], int]


def queue_home() -> Path:
    """Return TORCHDECK_HOME. Raises HomeError."""
    from torchdeck.runs.home import torchdeck_home

    return torchdeck_home()


def reports_refusals(handler: Handler) -> Handler:
    """Wrap a handler to print errors; exit code 2 if the request itself is wrong, else 3."""

    @wraps(handler)
    def guarded(args: argparse.Namespace) -> int:
        try:
            return handler(args)
        except Refusal as error:
            return report(error, as_json=getattr(args, "json", False))

    return guarded
