"""The problems of document and plan, put together for a list."""

from __future__ import annotations

from typing import NamedTuple

from torchdeck.config.problems import Problem
from torchdeck_app.launch.document.checked import CheckedDocument


class ProblemRow(NamedTuple):
    """One line of the list."""

    path: str
    """The key; empty where it is about a whole file."""
    wrong: str
    right: str
    line: int | None
    """Of this text; None where it stands elsewhere."""
    file: str
    """Of another file, which this one extends; else empty."""


def problem_rows(
    checked: CheckedDocument | None, planned: tuple[Problem, ...] = ()
) -> tuple[ProblemRow, ...]:
    """What is wrong with the text, or, where nothing is, with its plan on these machines; each once."""
    if checked is None:
        return ()
    rows = [_row(problem, checked) for problem in checked.problems or planned]
    return tuple(dict.fromkeys(rows))


def headline(rows: tuple[ProblemRow, ...]) -> str:
    """`No problems`, or how many and the first one's key."""
    if not rows:
        return "No problems"
    count = "1 problem" if len(rows) == 1 else f"{len(rows)} problems"
    name = next((row.path for row in rows if row.path), "")
    return f"{count}: {name}" if name else count


def _row(problem: Problem, checked: CheckedDocument) -> ProblemRow:
    own = checked.is_own(problem) or not problem.file
    return ProblemRow(
        problem.path, problem.wrong, problem.right, problem.line if own else None, "" if own else problem.file
    )
