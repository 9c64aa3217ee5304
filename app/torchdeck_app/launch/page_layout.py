"""Layout of Launch: document over problems at the left, preview over the bar at the right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QByteArray, Qt
from PySide6.QtWidgets import QSplitter, QVBoxLayout, QWidget

from torchdeck_app.widgets.splitter import Splitter

WIDE = 1500
"""Width of the page in pixels from which form and text have room side by side."""


class Halves(Splitter):
    """Splitters that the user can move and whose positions are saved, for each of two widths."""

    def __init__(
        self, toolbar: QWidget, views: QWidget, problems: QWidget, pane: QWidget, control: QWidget
    ) -> None:
        super().__init__("Width of the run file")
        self._document = Splitter("Height of the run file", Qt.Orientation.Vertical)
        self._document.addWidget(views)
        self._document.addWidget(problems)
        self._document.setStretchFactor(0, 1)
        self._document.setSizes([520, 132])
        self._left = _column(toolbar, self._document)
        self.addWidget(self._left)
        self.addWidget(_column(pane, control, stretch=0))
        self.setStretchFactor(0, 2)
        self.setStretchFactor(1, 3)
        self.setSizes([460, 740])
        self._is_wide = False
        self._other = ""
        """Sizes at the other width; empty before the first change."""
        for split in (self, self._document):
            split.setHandleWidth(1)  # Qt makes the grip area wider

    @property
    def above_document(self) -> QVBoxLayout:
        """Return the layout above the document; its content takes no space from the preview."""
        layout = self._left.layout()
        assert isinstance(layout, QVBoxLayout)  # noqa: S101 - made so below
        return layout

    def set_wide(self, *, is_wide: bool) -> None:
        """Give the document more room for form and text side by side; each width keeps its own sizes."""
        if is_wide == self._is_wide:
            return
        here, self._is_wide = _text(self.saveState()), is_wide
        if self._other:
            self.restoreState(_bytes(self._other))
        else:
            self.setSizes([880, 620] if is_wide else [460, 740])
        self._other = here

    def save_state(self) -> dict[str, str]:
        """Return the sizes of the parts."""
        now = {name: _text(split.saveState()) for name, split in self._splits().items()}
        names = ("wide_split", "split") if self._is_wide else ("split", "wide_split")
        return {**now, **dict(zip(names, (now["split"], self._other), strict=True))}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `save_state`; invalid entries are skipped."""
        for name, split in self._splits().items():
            own = "wide_split" if self._is_wide and split is self else name
            if isinstance(kept := state.get(own), str) and kept:
                split.restoreState(_bytes(kept))
        other = state.get("split" if self._is_wide else "wide_split")
        self._other = other if isinstance(other, str) else ""

    def _splits(self) -> dict[str, QSplitter]:
        return {"split": self, "left_split": self._document}


def _column(*widgets: QWidget, stretch: int = -1) -> QWidget:
    """Create a column of widgets; the one at `stretch` takes the free space."""
    made = QWidget()
    layout = QVBoxLayout(made)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(0)
    for widget in widgets:
        layout.addWidget(widget)
    layout.setStretch(stretch % len(widgets), 1)
    return made


def _bytes(text: str) -> QByteArray:
    return QByteArray.fromBase64(text.encode("ascii", "replace"))


def _text(value: QByteArray) -> str:
    return bytes(value.toBase64().data()).decode("ascii")
