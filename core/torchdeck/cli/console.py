"""Consoles of rich that show foreign text as it is: no markup in it counts, and no character of it acts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from torchdeck.cli.output import unguarded
from torchdeck.shown_text import shown

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table


class SafeConsole(Console):
    """Styles come from our own code alone: texts are sanitised after layout, when they no longer hold any."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich does, with each text safe to show; what moves the cursor is a segment of its own kind."""
        for segment in super().render(renderable, options):
            linked = segment.style is not None and segment.style.link is not None
            if segment.control or (segment.text.isprintable() and not linked):
                yield segment
            else:
                style = segment.style.update_link(None) if segment.style and linked else segment.style
                yield Segment(shown(segment.text), style)


def make_console(*, to_stderr: bool = False, **options: Any) -> SafeConsole:
    """A console on standard output or standard error.

    Args:
        to_stderr: on standard error.
        options: others of rich's.
    """
    stream = unguarded(sys.stderr if to_stderr else sys.stdout)
    return SafeConsole(file=stream, highlight=False, markup=False, emoji=False, **options)


# Tables of nodes as wide as there is room: columns that matter less are left out, and no cell is folded.

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
    telling = [headings[at] for at in filled_columns(headings, rows)]
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


def filled_columns(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
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


class FillingTable:
    """Shows the last table it was given for as long as the block lasts, and leaves it there."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._table: Table | None = None
        self._live: Live | None = None

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
        elif self._table is not None:
            print_table(self._console, self._table)

    def show(self, table: Table) -> None:
        """In place of the one before."""
        self._table = table
        if self._live is not None:
            self._live.update(table, refresh=True)

    def drop(self) -> None:
        """Leave no table behind."""
        self._table = None
        if self._live is not None:
            self._live.transient = True

    @contextmanager
    def out_of_the_way(self) -> Iterator[None]:
        """Give the terminal to another program for the duration of the block; the table is drawn again
        below.
        """
        if self._live is not None:
            self._live.transient = True
            self._live.stop()
        try:
            yield
        finally:
            self._begin()

    def _begin(self) -> None:
        """With a new display each time: one that was stopped would draw over what was asked meanwhile."""
        if not self._console.is_terminal:
            return
        from rich.live import Live

        self._live = Live(self._table or "", console=self._console, auto_refresh=False)
        self._live.start(refresh=self._table is not None)
