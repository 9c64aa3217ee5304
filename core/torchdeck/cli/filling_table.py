"""A table that fills at a terminal and gives way to questions; elsewhere it is printed once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from torchdeck.cli.fitting_columns import print_table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table


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
