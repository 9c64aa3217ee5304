"""Use case: the code of a run, its changes since the commit, and its difference from another run's."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.folders.code_difference import code_difference
from torchdeck.runs.folders.git_state import GitState, read_git_state

MOST_LINES = 20_000
"""Lines of a difference that a front end shows."""


class RunCode(NamedTuple):
    """Code that a run was started with."""

    state: GitState | None
    """Commit and changes; None: the code was in no repository, or git did not answer in time."""
    folder: Path | None
    """Copy of the code; None if there is none here."""


class Changes(NamedTuple):
    """Difference between the code of two runs."""

    lines: tuple[str, ...]
    """Lines of a unified diff; empty: the code is the same."""
    is_cut: bool
    """Whether more lines are left out."""


def read_code(layout: RunLayout) -> RunCode:
    """Return the code of a run. Blocks."""
    return RunCode(read_git_state(layout), layout.code if layout.code.is_dir() else None)


def recorded_state(layout: RunLayout) -> GitState:
    """Return the commit of a run's code and the changes since.

    Raises:
        Refusal: it has none on record.
    """
    state = read_git_state(layout)
    if state is None:
        raise Refusal(
            f"run {layout.root.name} has no git commit on record",
            "its code was in no repository, or git did not answer in time",
            "name another run to compare with",
        )
    return state


def changes(
    before: RunLayout,
    after: RunLayout,
    most: int | None = MOST_LINES,
    check: Callable[[], object] = lambda: None,
) -> Changes:
    """Return the changes from the code of one run to that of another, by their copies. Blocks.

    Args:
        before: the older code.
        after: the newer code.
        most: number of lines after which the rest is left out; None: no limit.
        check: called for each line; raises to cancel.

    Raises:
        NoCopyError: one of them has no copy of its code here.
    """
    found = code_difference(before, after)
    lines = []
    for line in islice(found, most):
        check()
        lines.append(line)
    return Changes(tuple(lines), next(found, None) is not None)
