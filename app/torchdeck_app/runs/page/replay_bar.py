"""Replay of a finished run at a chosen moment."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSlider, QToolButton, QWidget

from torchdeck.quantities import duration, moment
from torchdeck_app.theme.icons import icon
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.panel import GRID, label

_STEPS = 1000
_FRAME = 100
_SECONDS = 20.0
"""Seconds to play a whole run."""


class ReplayBar(QWidget):
    """Bar that emits `moved` with the moment until which the run is shown."""

    moved = Signal(object)
    """Emitted with unix seconds; None: the whole run."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._begin, self._end = 0.0, 0.0
        self.play = QToolButton()
        self.play.setCheckable(True)
        self.play.setText("Replay")
        self.play.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.play.setAccessibleName("Replay the run")
        self.play.setToolTip("Play the run again, from its start to its end, in 20 s")
        self.play.toggled.connect(self._toggle)
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setRange(0, _STEPS)
        self.slider.setValue(_STEPS)
        self.slider.setPageStep(_STEPS // 20)
        self.slider.setAccessibleName("Moment of the run that is shown")
        self.slider.setToolTip("Show the run as it was at this moment")
        self.slider.valueChanged.connect(self._tell)
        self._said: QLabel = label("", role="secondary")
        self._said.setMinimumWidth(self._said.fontMetrics().horizontalAdvance("888 min 88 s of 888 min 88 s"))
        row = QHBoxLayout(self)
        row.setContentsMargins(GRID, 0, GRID, 0)
        row.setSpacing(GRID)
        row.addWidget(self.play)
        row.addWidget(self.slider, 1)
        row.addWidget(self._said)
        self._clock = QTimer(self)
        self._clock.setInterval(_FRAME)
        self._clock.timeout.connect(self._step)
        theme.changed.connect(self._draw)
        self._draw()
        self.hide()

    def set_range(self, begin: float | None, end: float | None) -> None:
        """Set the begin and end of the run (unix seconds); None: there is nothing to replay."""
        if begin is None or end is None or end <= begin:
            self.play.setChecked(False)
            self.slider.setValue(_STEPS)
            self._begin = self._end = 0.0
            return
        self._begin, self._end = begin, end
        self._say()

    @property
    def has_range(self) -> bool:
        """Return whether there is something to replay."""
        return self._end > self._begin

    @property
    def until(self) -> float | None:
        """Return the shown moment; None: the end."""
        value = self.slider.value()
        return None if value >= _STEPS else self._begin + (self._end - self._begin) * value / _STEPS

    def _toggle(self, on: bool) -> None:  # noqa: FBT001 - a slot of Qt's
        self._draw()
        if on:
            if self.slider.value() >= _STEPS:
                self.slider.setValue(0)
            self._clock.start()
        else:
            self._clock.stop()

    def _step(self) -> None:
        self.slider.setValue(self.slider.value() + max(1, round(_STEPS * _FRAME / 1000 / _SECONDS)))
        if self.slider.value() >= _STEPS:
            self.play.setChecked(False)

    def _tell(self) -> None:
        self._say()
        self.moved.emit(self.until)

    def _say(self) -> None:
        whole = self._end - self._begin
        until = self.until
        done = whole if until is None else until - self._begin
        self._said.setText(f"{duration(done)} of {duration(whole)}")
        self._said.setToolTip(moment(self._end if until is None else until))

    def _draw(self) -> None:
        self.play.setIcon(icon("pause" if self.play.isChecked() else "resume", self._theme.palette))
