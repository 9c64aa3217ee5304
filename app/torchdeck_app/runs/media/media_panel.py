"""Panel with what a run logged besides numbers, over its steps."""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import QSignalBlocker, Qt
from PySide6.QtWidgets import (
    QHBoxLayout,
    QListWidget,
    QListWidgetItem,
    QSlider,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.media_format import MediaError
from torchdeck.metrics.logged_media import Listing, LoggedMedia, MediaReader, read_media
from torchdeck.shown_text import shown
from torchdeck_app.bridge.background_loop import Poller
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.runs.media.content_views import ContentView, Shown, decoded
from torchdeck_app.runs.run_panel import RunPanel
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.help import ErrorLine
from torchdeck_app.widgets.inputs import NamedBox
from torchdeck_app.widgets.labels import ElidedLabel, plain_tip
from torchdeck_app.widgets.panel import GRID, EmptyState

_INTERVAL = 1.0
_NAMES_WIDTH = 26 * GRID
_STEP_WIDTH = 22 * GRID
_Seen = tuple[Listing, tuple[str, ...]]
"""All values, and the files that are damaged."""


class _Read(NamedTuple):
    """A value that was read, or why it could not be."""

    value: LoggedMedia | None
    content: Shown | None
    why: str


def _read(value: LoggedMedia) -> _Read:
    """Do the work, in the thread."""
    try:
        return _Read(value, decoded(read_media(value)), "")
    except (MediaError, OSError) as error:
        return _Read(value, None, str(error))


class MediaView(RunPanel):
    """Panel that polls the run's files while visible; the newest step is followed if it is selected."""

    def __init__(
        self, theme: Theme, operations: Operations, layout: RunLayout, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._operations = operations
        self._reader = MediaReader(layout)
        self._listing: Listing = {}
        self._names: tuple[str, ...] = ()
        self._shown: LoggedMedia | None = None
        """The value that is shown, or being read."""
        self._damage, self._why = "", ""
        """Defects of a file, and of the value that is shown; empty: none."""
        self._poller = Poller[_Seen]("logged images and texts", self._look, _INTERVAL, self)
        self._poller.changed.connect(self._take)
        self._poller.failed.connect(self._say_failed)
        self.names = QListWidget()
        self.names.setAccessibleName("Logged names")
        self.names.setFixedWidth(_NAMES_WIDTH)
        self.names.setSpacing(2)
        self.names.currentRowChanged.connect(lambda _row: self._choose_name())
        self.rank = NamedBox()
        self.rank.setAccessibleName("Rank")
        self.rank.currentIndexChanged.connect(lambda _index: self._choose_rank())
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setAccessibleName("Step")
        self.slider.setMaximum(0)
        self.slider.valueChanged.connect(lambda _value: self._show())
        self.step = ElidedLabel()
        self.step.setFixedWidth(_STEP_WIDTH)
        self.caption = ElidedLabel()
        self.caption.setProperty("role", "secondary")
        self.content = ContentView(theme)
        self.said = ErrorLine()
        self.empty = EmptyState(theme, "note", "Nothing but numbers", _TO_COME)
        self._stack = QStackedWidget()
        self._stack.addWidget(self.empty)
        self._stack.addWidget(self._page())
        QVBoxLayout(self).addWidget(self._stack)

    def entered(self) -> None:
        self._poller.start()

    def left(self) -> None:
        self._poller.stop()

    closing = left

    @property
    def _name(self) -> str | None:
        row = self.names.currentRow()
        return self._names[row] if 0 <= row < len(self._names) else None

    @property
    def _values(self) -> tuple[LoggedMedia, ...]:
        """Values of the selected name and rank, by step."""
        return tuple(self._listing.get((self._name or "", self.rank.currentData() or 0), ()))

    def _say_failed(self, error: Exception) -> None:
        self.said.say(str(error))

    def _look(self) -> _Seen:
        """Do the work, in the thread."""
        return self._reader.refresh(), self._reader.problems

    def _take(self, seen: _Seen) -> None:
        self._listing, problems = seen
        follows = self.slider.value() == self.slider.maximum()
        name = self._name
        names = tuple(dict.fromkeys(name for name, _ in self._listing))
        if names != self._names:
            self._names = names
            with QSignalBlocker(self.names):
                self.names.clear()
                for each in names:
                    item = QListWidgetItem(shown(each))
                    item.setToolTip(plain_tip(each))
                    self.names.addItem(item)
                self.names.setCurrentRow(names.index(name) if name in names else 0)
        self._stack.setCurrentIndex(1 if names else 0)
        self._damage = f"Damaged, and shown up to there: {problems[0]}" if problems else ""
        self.said.say(self._why or self._damage)
        self._offer_ranks()
        self._set_steps(follows=follows)

    def _choose_name(self) -> None:
        self._offer_ranks()
        self._set_steps(follows=True)

    def _choose_rank(self) -> None:
        self._set_steps(follows=True)

    def _offer_ranks(self) -> None:
        """Offer the ranks that logged the selected name; the choice stays if possible."""
        ranks = [rank for name, rank in self._listing if name == self._name]
        if ranks == [self.rank.itemData(row) for row in range(self.rank.count())]:
            return
        chosen = self.rank.currentData()
        with QSignalBlocker(self.rank):
            self.rank.clear()
            for rank in ranks:
                self.rank.addItem(f"Rank {rank}", rank)
            self.rank.setCurrentIndex(ranks.index(chosen) if chosen in ranks else 0)
        self.rank.setVisible(len(ranks) > 1)

    def _set_steps(self, *, follows: bool) -> None:
        """Let the slider go over the values; it stays at its value's step, or follows the newest."""
        values = self._values
        step = self._shown.step if self._shown is not None else 0
        with QSignalBlocker(self.slider):
            self.slider.setMaximum(max(0, len(values) - 1))
            at = next((at for at, each in enumerate(values) if each.step >= step), len(values) - 1)
            self.slider.setValue(len(values) - 1 if follows else at)
        self.slider.setEnabled(len(values) > 1)
        self._show()

    def _show(self) -> None:
        values = self._values
        value = values[min(self.slider.value(), len(values) - 1)] if values else None
        if value == self._shown:
            return
        self._shown = value
        if value is None:
            self._show_read(_Read(value, None, ""))
            return
        newest = values[-1].step
        self.step.setText(f"Step {value.step:,} of {newest:,}")
        caption = value.record.head.caption
        self.caption.setText(shown(caption).replace("\n", " "))
        self.caption.setToolTip(plain_tip(caption))
        self.caption.setVisible(bool(caption))
        self._operations.run(
            f"reading {value.record.head.name}",
            lambda _progress, _cancel: _read(value),
            done=self._show_read,  # of this widget: Qt disconnects it with it
        )

    def _show_read(self, read: _Read) -> None:
        if read.value != self._shown:
            return  # another one was chosen meanwhile
        self._why = read.why
        self.content.show_content(read.content)
        self.said.say(self._why or self._damage)

    def _page(self) -> QWidget:
        bar = QHBoxLayout()
        bar.setSpacing(GRID)
        bar.addWidget(self.step)
        bar.addWidget(self.slider, 1)
        bar.addWidget(self.rank)
        right = QVBoxLayout()
        right.setSpacing(GRID)
        right.addLayout(bar)
        right.addWidget(self.content, 1)
        right.addWidget(self.caption)
        right.addWidget(self.said)
        page = QWidget()
        row = QHBoxLayout(page)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(2 * GRID)
        row.addWidget(self.names)
        row.addLayout(right, 1)
        return page


_TO_COME = (
    "What the program logs besides numbers appears here: torchdeck.Image, Text, Histogram and Table, given "
    "to torchdeck.log."
)
