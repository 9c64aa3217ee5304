"""How commands say what is wrong with a config."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torchdeck.cli import exit_codes
from torchdeck.cli.json_text import json_text

if TYPE_CHECKING:
    from torchdeck.config.problems import ConfigError, Problem


def report(error: ConfigError, *, as_json: bool = False) -> int:
    """Print every problem; the exit code is 2 for a bad config, 3 where it does not fit the machines."""
    from torchdeck.plan.problems import PlanError

    print_problems(error.problems, as_json=as_json)
    return exit_codes.REFUSED if isinstance(error, PlanError) else exit_codes.USAGE


def print_problems(problems: Sequence[Problem], *, as_json: bool = False) -> None:
    """Each problem with its place, what is wrong, and what would be right.

    As JSON one object on standard output, `{"problems": [{path, file, line, wrong, right}]}`; else on stderr.
    """
    if as_json:
        print(json_text({"problems": [problem.to_json() for problem in problems]}))
        return
    for problem in problems:
        print(_text(problem), file=sys.stderr)


def _text(problem: Problem) -> str:
    place = problem.file if problem.line is None else f"{problem.file}:{problem.line}"
    head = ": ".join(part for part in (place, problem.path, problem.wrong) if part)
    return f"{head}\n    right: {problem.right}" if problem.right else head
