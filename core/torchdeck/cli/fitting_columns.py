"""Tables of nodes as wide as there is room: columns that matter less are left out, and no cell is folded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

GAP = 2
"""Characters between columns."""
ENDLESS = 10_000
"""Characters of a line without a limit."""
NOTHING = ("", "-")


def room(console: Console) -> int | None:
    """Return the characters of a line; None if there is no limit: a file or pipe takes lines of any
    length.
    """
    return console.width if console.is_terminal or "COLUMNS" in os.environ else None


def fitting(
    headings: Sequence[str], rows: Sequence[Sequence[str]], by_weight: Sequence[str], width: int | None
) -> list[int]:
    """Choose the columns that fit next to each other, in the order of `headings`; the first of `by_weight`
    always does.

    Args:
        headings: of all columns.
        rows: their cells; a row may end early.
        by_weight: headings, the most important first; empty columns come last.
        width: characters of a line; None: all fit.
    """
    if width is None:
        return list(range(len(headings)))
    columns = {heading: [row[at] for row in rows if at < len(row)] for at, heading in enumerate(headings)}
    telling = [headings[at] for at in told(headings, rows)]
    said = [heading for heading in by_weight if heading in telling]
    left, kept = width, set[str]()
    for heading in dict.fromkeys([by_weight[0], *said, *by_weight]):
        taken = max(map(width_of, (heading, *columns[heading]))) + GAP
        if heading == by_weight[0] or taken - GAP <= left:
            kept.add(heading)
            left -= taken
    return [at for at, heading in enumerate(headings) if heading in kept]


def width_of(cell: str) -> int:
    """Characters of the longest line in a cell."""
    return max(map(len, cell.split("\n")))


def told(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """The columns in which something stands; without one of the others nothing is missing."""
    return [at for at in range(len(headings)) if any(row[at] not in NOTHING for row in rows if at < len(row))]


def bare_table(headings: Sequence[str]) -> Table:
    """A table without lines, whose cells are cut rather than folded."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for heading in headings:
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    return table


def print_table(console: Console, table: Table) -> None:
    """Print it, at full width if the line length has no limit."""
    if room(console) is None:
        console.width = ENDLESS
    console.print(table)
