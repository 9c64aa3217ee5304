"""Progress bars for sending a run's code to each node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QGridLayout, QProgressBar, QSizePolicy, QWidget

from torchdeck.quantities import size
from torchdeck.runs.links import LinkState
from torchdeck_app.runs.header.node_links import MOST
from torchdeck_app.widgets.labels import ElidedLabel, SteadyLabel, plain_tip
from torchdeck_app.widgets.panel import GRID

_STEPS = 1000
"""Steps of each bar."""
_SOON = 500
"""Milliseconds before bars appear: a short transfer would otherwise move the layout twice."""
_NAME_WIDTH = 18 * GRID


class _Sent(NamedTuple):
    """Progress of one bar; both values in bytes."""

    name: str
    sent: int
    whole: int


class CodeBars(QWidget):
    """Bar for each node that is being sent code, in order; one for all if there are many. Else hidden."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Code being sent")
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(GRID)
        self._grid.setVerticalSpacing(4)
        self._grid.setColumnStretch(1, 1)
        self._links: Sequence[LinkState] = ()
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(_SOON)
        self._soon.timeout.connect(self._draw)
        self._rows: list[tuple[ElidedLabel, QProgressBar, SteadyLabel]] = []
        self.hide()

    @property
    def bars(self) -> tuple[QProgressBar, ...]:
        """Return the visible bars."""
        return tuple(bar for _, bar, _ in self._rows if not bar.isHidden())

    def show_sent(self, links: Sequence[LinkState]) -> None:
        """Show the progress of each of `links`; hide if there is none."""
        if links and not self._links:
            self._soon.start()
        elif not links:
            self._soon.stop()
        self._links = links
        self._draw()

    def _draw(self) -> None:
        shown = [] if self._soon.isActive() else _shown(self._links)
        while len(self._rows) < len(shown):
            self._rows.append(self._add_row())
        for at, row in enumerate(self._rows):
            for widget in row:
                widget.setVisible(at < len(shown))
        for (name, bar, amount), sent in zip(self._rows, shown, strict=False):
            name.setText(sent.name)
            words = f"{size(sent.sent)} of {size(sent.whole)}"
            bar.setValue(_STEPS * min(sent.sent, sent.whole) // sent.whole)
            bar.setAccessibleName(f"Code sent to {sent.name}")
            bar.setAccessibleDescription(words)
            bar.setToolTip(plain_tip(f"{sent.sent:,} of {sent.whole:,} bytes of code sent to {sent.name}"))
            amount.setText(words)
        self.setVisible(bool(shown))

    def _add_row(self) -> tuple[ElidedLabel, QProgressBar, SteadyLabel]:
        name, bar, amount = ElidedLabel(), QProgressBar(), SteadyLabel()
        name.setFixedWidth(_NAME_WIDTH)
        bar.setTextVisible(False)
        bar.setFixedHeight(GRID)
        bar.setRange(0, _STEPS)
        bar.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        amount.setProperty("role", "secondary")
        amount.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        amount.setFixedWidth(amount.fontMetrics().horizontalAdvance("1023.9 MiB of 1023.9 MiB") + 2)
        at = len(self._rows)
        for column, widget in enumerate((name, bar, amount)):
            self._grid.addWidget(widget, at, column)
        return name, bar, amount


def _shown(links: Sequence[LinkState]) -> list[_Sent]:
    found = [_Sent(f"node {link.node}", link.code_sent or 0, link.code_size or 1) for link in links]
    if len(found) <= MOST:
        return found
    return [_Sent(f"{len(found)} nodes", sum(each.sent for each in found), sum(each.whole for each in found))]
