"""Field that chooses what to show of a run: fixed views first, then its changes from each other run."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from torchdeck.contract.layout import RunLayout
from torchdeck.quantities import moment
from torchdeck.runs.run_list import RunEntry
from torchdeck.shown_text import shown
from torchdeck_app.widgets.inputs import NamedBox
from torchdeck_app.widgets.labels import plain_tip

_OFFERED = 200
"""Maximum number of other runs in the list, newest first."""


class RunChoice(NamedBox):
    """Field whose first items its owner adds before the first call of `set_runs`."""

    def __init__(self, layout: RunLayout, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._layout = layout
        self._fixed: int | None = None
        self._offered: tuple[str, ...] = ()
        self._layouts: dict[str, RunLayout] = {}
        self.setAccessibleName(name)
        self.setMinimumContentsLength(32)

    @property
    def chosen_run(self) -> RunLayout | None:
        """Return the other run chosen; None for one of the first items."""
        return self._layouts.get(self.currentData())

    def set_runs(self, entries: tuple[RunEntry, ...]) -> None:
        """Offer these runs for comparison; the choice stays."""
        if self._fixed is None:
            self._fixed = self.count()
        others = [entry for entry in entries if entry.layout != self._layout and entry.view is not None]
        others = others[:_OFFERED]
        ids = tuple(entry.id for entry in others)
        if ids == self._offered:
            return
        self._offered = ids
        self._layouts = {entry.id: entry.layout for entry in others}
        chosen = self.currentData()
        self.blockSignals(True)  # noqa: FBT003 - Qt's signature
        while self.count() > self._fixed:
            self.removeItem(self._fixed)
        for entry in others:
            begun = entry.view.created if entry.view is not None else None
            self.addItem(shown(f"Changes from {entry.name}, {moment(begun)}"), entry.id)
            self.setItemData(self.count() - 1, plain_tip(entry.id), Qt.ItemDataRole.ToolTipRole)
        self.setCurrentIndex(max(0, self.findData(chosen)))
        self.blockSignals(False)  # noqa: FBT003 - Qt's signature
