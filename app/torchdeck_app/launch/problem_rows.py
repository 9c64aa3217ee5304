"""Problems of document and plan, combined for a list."""

from __future__ import annotations

from typing import NamedTuple

from torchdeck.config.problems import Problem
from torchdeck_app.launch.document.checked import CheckedDocument


class ProblemRow(NamedTuple):
    """Line of the list."""

    path: str
    """Key; empty if it concerns a whole file."""
    wrong: str
    right: str
    line: int | None
    """Line of this text; None if it is elsewhere."""
    file: str
    """Other file that this one extends; else empty."""


def problem_rows(
    checked: CheckedDocument | None, planned: tuple[Problem, ...] = ()
) -> tuple[ProblemRow, ...]:
    """Return the problems of the text, or if there are none, of its plan on these machines; each once."""
    if checked is None:
        return ()
    rows = [_row(problem, checked) for problem in checked.problems or planned]
    return tuple(dict.fromkeys(rows))


def headline(rows: tuple[ProblemRow, ...]) -> str:
    """Return `No problems`, or their number and the first one's key."""
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
