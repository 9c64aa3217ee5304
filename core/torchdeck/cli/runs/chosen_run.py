"""The run that a command line names."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path

from torchdeck.cli.output import USAGE
from torchdeck.cli.refusals import print_pages
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.home import torchdeck_home
from torchdeck.runs.registry import RunNotFoundError, RunRegistry
from torchdeck.use_cases.elsewhere.job import attach_job, is_job_folder

ID_HELP = "a run's id, a unique prefix of it, its name, `latest`, or the run directory of an exported job"

Handler = Callable[[argparse.Namespace], int]


def registry() -> RunRegistry:
    """The runs of this home. Raises HomeError."""
    return RunRegistry(torchdeck_home())


def find_run(asked: str, *, active: bool = False) -> RunLayout:
    """Return the run that `asked` names; its errors are those that `reports_refusals` handles.

    Args:
        asked: id, prefix of one, name or `latest`; or the run directory of an exported job.
        active: of several runs, the only one that is not over is meant.
    """
    try:
        return registry().find(asked, active=active)
    except RunNotFoundError:
        folder = Path(asked)
        if not (is_job_folder(folder) or (os.sep in asked and folder.is_dir())):
            raise
        return attach_job(folder)


def reports_refusals(handler: Handler) -> Handler:
    """Wrap a handler: print why there is no such run, or why it cannot be read; exit code 2."""

    @wraps(handler)
    def guarded(args: argparse.Namespace) -> int:
        try:
            return handler(args)
        except (Refusal, PermissionError) as error:
            print(f"torchdeck: {error}", file=sys.stderr)
            if isinstance(error, Refusal):
                print_pages(error)
            return USAGE

    return guarded


def whole_number(text: str) -> int:
    """Return the number in an argument.

    Raises:
        ArgumentTypeError: it is none, or is negative.
    """
    if text.isdecimal() and text.isascii():
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
