"""Heat map of rank × time that makes stragglers visible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from PySide6.QtCore import QSignalBlocker, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QComboBox,
    QHBoxLayout,
    QSizePolicy,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from torchdeck.contract.layout import RunLayout
from torchdeck.runs.plots.rank_matrix import Asked, Matrix, MatrixReader
from torchdeck.runs.plots.stragglers import sentence
from torchdeck.runs.plots.x_axis import X_NAMES, XKind
from torchdeck.runs.view import RunView
from torchdeck.shown_text import shown
from torchdeck_app.bridge.background_loop import Feed
from torchdeck_app.runs.page.rank_heat_map import HeatMap
from torchdeck_app.runs.run_panel import RunPanel
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.inputs import NamedBox
from torchdeck_app.widgets.labels import ElidedLabel, plain_tip
from torchdeck_app.widgets.panel import GRID, EmptyState

_ONE_ROW = 90 * GRID
"""Minimum width in pixels for the verdict to fit next to the choices."""
_LOOK_EVERY, _LOOK_EVERY_ENDED = 1.0, 5.0
_KINDS: tuple[XKind, ...] = ("step", "relative")
_WHAT: dict[XKind, str] = {"step": "step", "relative": "second"}


class RankHeatMap(RunPanel):
    """Heat map of a metric of every rank over time, with a sentence that names stragglers."""

    def __init__(self, theme: Theme, layout: RunLayout, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._asked = Asked("", "step", 300)
        self._entered = False
        self._matrix: Matrix | None = None
        self._sentence = ""
        self._delays = ""
        """Sentence on ranks that make the others wait; empty if none do."""
        self._feed: Feed[Asked, Matrix] = Feed("ranks", MatrixReader(layout).answer, _LOOK_EVERY, self)
        self._feed.answered.connect(self._show)
        self._feed.failed.connect(lambda error: self._tell(f"The metrics cannot be read: {error}"))
        self._feed.follow(on=False)
        self.map = HeatMap(theme)
        self.map.pointed.connect(self._point)
        self.map.told.connect(lambda text: self._tell(text or self._said))
        self._gather = QTimer(self, singleShot=True, interval=25)
        self._gather.timeout.connect(self._ask)
        self._choice = NamedBox()
        self._axis = NamedBox()
        self.verdict = ElidedLabel("Reading the metrics…")
        self._pages = QStackedWidget()
        self._pages.addWidget(self.map)
        self._pages.addWidget(EmptyState(theme, "runs", "No ranks yet", "One row per rank appears here."))
        self._lay_out()

    def _lay_out(self) -> None:
        self._axis.addItems([X_NAMES[kind] for kind in _KINDS])
        for widget, name in ((self._choice, "Metric"), (self._axis, "X axis")):
            widget.setAccessibleName(name)
            widget.setToolTip(f"{name} of the heat map")
            widget.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self._axis.currentIndexChanged.connect(
            lambda number: self._change(replace(self._asked, kind=_KINDS[number]))
        )
        self._choice.currentIndexChanged.connect(
            lambda _: self._change(replace(self._asked, key=self._choice.currentData() or ""))
        )
        self.verdict.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        boxes = QHBoxLayout()
        boxes.setSpacing(GRID)
        boxes.addWidget(self._choice)
        boxes.addWidget(self._axis)
        row = self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        row.setContentsMargins(GRID, GRID // 2, GRID, GRID // 2)
        row.setSpacing(GRID)
        row.addLayout(boxes)
        row.addWidget(self.verdict, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(row)
        column.addWidget(self._pages, 1)

    def entered(self) -> None:
        """Called when the panel becomes visible: follow the files."""
        self._entered = True
        self._feed.follow(on=True)
        self._gather.start()

    def left(self) -> None:
        """Called when the panel is hidden: read nothing."""
        self._entered = False
        self._gather.stop()
        self._feed.follow(on=False)

    def closing(self) -> None:
        """End the reader thread."""
        self.left()
        self._feed.stop()

    def show_view(self, view: RunView) -> None:
        """Show the run's changed state."""
        self._feed.set_interval(_LOOK_EVERY_ENDED if view.is_over else _LOOK_EVERY)
        self.map.mark_delaying({rank: each.step for each in view.stragglers for rank in each.ranks})
        delays = " ".join(f"{each.detail}." for each in view.stragglers)
        if delays != self._delays:
            self._delays = delays
            self._arrange()
            self._tell(self._said)

    def set_cursor(self, time: float | None) -> None:
        """Show the time cursor at unix `time`, or hide it; `cursor_moved` is not emitted."""
        matrix = self._matrix
        self.map.set_cursor(None if time is None or matrix is None else matrix.moments.x_at(time))

    def set_until(self, time: float | None) -> None:
        """Show the plots as of unix `time` (replay); None shows all."""
        self._change(replace(self._asked, until=time))

    @property
    def matrix(self) -> Matrix | None:
        """Return the latest answer of the reader."""
        return self._matrix

    def save_state(self) -> dict[str, Any]:
        """Return the user's choices."""
        return {"metric": self._asked.key, "axis": self._asked.kind}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `save_state`."""
        key, kind = state.get("metric"), state.get("axis")
        if isinstance(key, str):
            self._change(replace(self._asked, key=key))
        if kind in _KINDS:
            self._change(replace(self._asked, kind=kind))
            with QSignalBlocker(self._axis):
                self._axis.setCurrentIndex(_KINDS.index(kind))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self._arrange()
        self._gather.start()

    def _arrange(self) -> None:
        """Give the verdict a row of its own if it is long or the panel is narrow."""
        ways = QBoxLayout.Direction
        below = self.width() < _ONE_ROW or bool(self._delays)
        self._row.setDirection(ways.TopToBottom if below else ways.LeftToRight)

    def _change(self, asked: Asked) -> None:
        if asked != self._asked:
            self._asked = asked
            self._gather.start()

    def _ask(self) -> None:
        if self._entered:
            self._asked = replace(self._asked, columns=self.map.columns)
            self._feed.ask(self._asked)

    def _show(self, matrix: Matrix) -> None:
        if self._matrix is None or self._matrix.metrics != matrix.metrics:
            self._fill(matrix)
        self._matrix = matrix
        self._pages.setCurrentIndex(0 if matrix.ranks else 1)
        self.map.show_matrix(matrix)
        firsts = np.ceil(matrix.edges[:-1])
        what = _WHAT[matrix.asked.kind]
        self._sentence = matrix.problem or (
            sentence(list(matrix.found), list(matrix.ranks), firsts, what, matrix.nodes)
            if matrix.ranks
            else ""
        )
        self._tell(self._said)

    @property
    def _said(self) -> str:
        """Return what is said while the pointer is elsewhere: waiting is a cost, a long step may be none."""
        return self._delays or self._sentence

    def _fill(self, matrix: Matrix) -> None:
        with QSignalBlocker(self._choice):
            self._choice.clear()
            self._choice.setEnabled(bool(matrix.metrics))
            for metric in matrix.metrics:
                self._choice.addItem(shown(metric.title), metric.key)
            if matrix.metric is not None:
                self._choice.setCurrentIndex(self._choice.findData(matrix.metric.key))

    def _tell(self, text: str) -> None:
        if self.verdict.text() != text:
            self.verdict.setText(text)
            self.verdict.setToolTip(plain_tip(text))

    def _point(self, x: float | None) -> None:
        self.map.set_cursor(x)
        matrix = self._matrix
        self.cursor_moved.emit(None if x is None or matrix is None else matrix.moments.time_at(x))
