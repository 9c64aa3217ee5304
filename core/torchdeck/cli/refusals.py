"""Terminal renderer of `Refusal`: why something cannot be done."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import wraps

from torchdeck.cli.output import REFUSED, USAGE, json_text
from torchdeck.contract.refusal import Refusal

Handler = Callable[[argparse.Namespace], int]


def reports_refusals(handler: Handler) -> Handler:
    """Wrap a handler to print errors; exit code 2 if the request itself is wrong, else 3."""

    @wraps(handler)
    def guarded(args: argparse.Namespace) -> int:
        try:
            return handler(args)
        except Refusal as error:
            return report(error, as_json=getattr(args, "json", False))

    return guarded


def report(error: Refusal, *, as_json: bool = False, command: str = "torchdeck") -> int:
    """Print every reason; the exit code is 2 if the request itself is wrong, else 3.

    Errors in a run file are printed with their locations, each with the expected value below.
    """
    from torchdeck.config.problems import ConfigError

    if isinstance(error, ConfigError):
        print_problems(error.parts(), as_json=as_json)
    elif error.is_usage:
        print(f"{command}: {error}", file=sys.stderr)
    else:
        refuse([str(part) for part in error.parts()], as_json=as_json, command=command)
    if not as_json:
        print_pages(error)
    return USAGE if error.is_usage else REFUSED


def print_pages(error: Refusal) -> None:
    """Print the pages of the documentation that help, each once."""
    for page in dict.fromkeys(part.page for part in error.parts() if part.page):
        print(f"help: torchdeck docs {page}", file=sys.stderr)


def refuse(reasons: Sequence[str], *, as_json: bool, command: str = "torchdeck") -> int:
    """Print why nothing was started or done."""
    if as_json:
        print(json_text({"event": "refused", "reasons": list(reasons)}))
    else:
        for reason in reasons:
            print(f"{command}: {reason}", file=sys.stderr)
    return REFUSED


def print_problems(problems: Sequence[Refusal], *, as_json: bool = False) -> None:
    """Print each problem with its location, what is wrong, and what is expected.

    As JSON one object on standard output, `{"problems": [{path, file, line, wrong, right}]}`; else on stderr.
    """
    if as_json:
        print(json_text({"problems": [_document(problem) for problem in problems]}))
        return
    for problem in problems:
        print(_text(problem), file=sys.stderr)


def _document(problem: Refusal) -> dict[str, str | int | None]:
    return {
        "path": problem.key,
        "file": problem.file,
        "line": problem.line,
        "wrong": problem.finding,
        "right": problem.fix,
    }


def _text(problem: Refusal) -> str:
    place = problem.file if problem.line is None else f"{problem.file}:{problem.line}"
    head = ": ".join(part for part in (place, problem.key, problem.finding) if part)
    return f"{head}\n    expected: {problem.fix}" if problem.fix else head
