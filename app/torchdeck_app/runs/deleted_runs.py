"""What the Runs place shows once runs in sight were deleted."""

from __future__ import annotations

from collections.abc import Callable

from torchdeck_app.runs.commands.commands import Aside, RunCommands
from torchdeck_app.runs.shown import ShownRuns
from torchdeck_app.runs.table.run_table import RunTable
from torchdeck_app.runs.undo_bar import UndoBar


class DeletedRuns:
    """Goes on to the next run, and back to one that was put back.

    Args:
        commands: which delete, put back and remove.
        table: from which the next run is taken.
        shown: in which it is shown.
        settled: shows what is selected.
        open_run: shows a run as soon as it is in the list.
    """

    def __init__(
        self,
        commands: RunCommands,
        table: RunTable,
        shown: ShownRuns,
        settled: Callable[[], None],
        open_run: Callable[[str], None],
    ) -> None:
        self._table, self._shown = table, shown
        self._settled, self._open_run = settled, open_run
        self.undo_bar = UndoBar(table.list)
        commands.deleted.connect(self._offer)
        self.undo_bar.undone.connect(commands.put_back)
        self.undo_bar.undone.connect(self._go_back)
        self.undo_bar.expired.connect(commands.remove)

    def _offer(self, aside: Aside) -> None:
        self.undo_bar.offer(aside)
        if not self._shown.shows_any(aside.ids):
            return
        if self._table.select_beside(aside.ids):
            self._settled()
        else:
            self._shown.show_none()

    def _go_back(self, aside: Aside) -> None:
        self._open_run(aside.ids[0])
