"""Launch page without a document: the presets as cards, and files to open."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QMouseEvent, QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from torchdeck.config.starting_files import (
    Remains,
    preset_companions,
    preset_names,
    preset_summary,
    preset_text,
    what_remains,
)
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import ElidedLabel, control_text, plain_tip
from torchdeck_app.widgets.panel import GRID, Panel, label

CARD_WIDTH = 280
_RECENT = 5
_NOTES: dict[Remains, str] = {
    "nothing": "",
    "plan only": "for planning: starts nothing",
    "batch plan": "its batch plan is built first",
    "script": "for a script of yours",
    "files": "for a folder of yours",
}


class PresetCard(NamedTuple):
    """Content of a card."""

    name: str
    summary: str
    note: str


def preset_cards() -> tuple[PresetCard, ...]:
    """Return a card per preset, the default one first. Reads files: not for the GUI thread."""
    cards = []
    for name in preset_names():
        note = _NOTES[what_remains(preset_text(name))]
        if companions := preset_companions(name):
            note = f"writes {' and '.join(companions)} into a folder of yours"
        cards.append(PresetCard(name, preset_summary(name), note))
    return tuple(cards)


class Card(Panel):
    """Preset card, chosen by a click anywhere or by its button."""

    chosen = Signal(str)

    def __init__(self, card: PresetCard, parent: QWidget | None = None) -> None:
        super().__init__(card.name, parent)
        self._name = card.name
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        summary = label(card.summary, wrap=True)
        summary.setAlignment(Qt.AlignmentFlag.AlignTop)
        summary.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.MinimumExpanding)
        self.add(summary, 1)
        self.button = QPushButton("Open")
        self.button.setAccessibleName(f"Open {card.name}")
        self.button.setToolTip(f"Start from {card.name}")
        self.button.clicked.connect(lambda: self.chosen.emit(card.name))
        row = QHBoxLayout()
        row.addWidget(label(card.note, Type.SMALL, "secondary", wrap=True), 1)
        row.addWidget(self.button)
        foot = QWidget()
        row.setContentsMargins(0, 0, 0, 0)
        foot.setLayout(row)
        self.add(foot)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        if event.button() is Qt.MouseButton.LeftButton and self.rect().contains(event.position().toPoint()):
            self.chosen.emit(self._name)


class StartPage(QScrollArea):
    """Start page with cards in as many columns as fit."""

    preset_chosen = Signal(str)
    file_chosen = Signal(object)
    """Emitted with the Path of a recent file."""
    open_wanted = Signal()
    script_wanted = Signal()
    back_wanted = Signal()
    """Emitted to return to the open document."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._cards: list[Card] = []
        self._columns = 0
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setAccessibleName("Begin")
        self.setProperty("role", "scrolled")
        inside = QWidget()
        self._column = QVBoxLayout(inside)
        self._column.setContentsMargins(4 * GRID, 2 * GRID, 4 * GRID, GRID)
        self._column.setSpacing(GRID)
        self._column.addWidget(label("What do you want to run?", Type.NUMBER))
        sentence = (
            "Choose a preset, and see where every rank, sample and byte will be before anything starts."
        )
        self._column.addWidget(label(sentence, role="secondary", wrap=True))
        self._column.addSpacing(GRID)
        self._column.addLayout(self._buttons())
        self._recent_box = QVBoxLayout()
        self._recent_box.setSpacing(4)
        self._recent_box.setContentsMargins(0, GRID, 0, GRID)
        self._column.addLayout(self._recent_box)
        self._wait = label("Reading the presets …", role="secondary")
        self._column.addWidget(self._wait)
        self._grid = QGridLayout()
        self._grid.setSpacing(2 * GRID)
        self._column.addLayout(self._grid)
        self._column.addStretch(1)
        self.setWidget(inside)

    @property
    def cards(self) -> Sequence[Card]:
        return self._cards

    def show_cards(self, cards: tuple[PresetCard, ...]) -> None:
        """Show the presets."""
        self._wait.hide()
        for card in cards:
            made = Card(card)
            made.chosen.connect(self.preset_chosen)
            self._cards.append(made)
        self._columns = 0
        self._lay_out()

    def show_error(self, error: Exception) -> None:
        """Show why they could not be read."""
        self._wait.setText(f"The presets cannot be read: {error}. Install Torchdeck again, or open a file.")

    def show_back(self, name: str) -> None:
        """Offer to return to the document `name`; empty: there is none."""
        fitting = self.fontMetrics().elidedText(name, Qt.TextElideMode.ElideMiddle, 240)
        self.back_button.setText(f"&Back to {control_text(fitting)}")
        self.back_button.setAccessibleName(f"Back to {name}")
        self.back_button.setVisible(bool(name))

    def show_recent(self, paths: Sequence[Path]) -> None:
        """Offer recent files."""
        while (item := self._recent_box.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.deleteLater()
        if paths:
            self._recent_box.addWidget(label("Open again", Type.HEADING))
        for path in paths[:_RECENT]:
            self._recent_box.addWidget(self._recent(path))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self._lay_out()

    def _recent(self, path: Path) -> QWidget:
        row = QWidget()
        button = QPushButton(control_text(path.name))
        button.setAccessibleName(f"Open {path}")
        button.setToolTip(plain_tip(str(path)))
        button.clicked.connect(lambda: self.file_chosen.emit(path))
        where = ElidedLabel(str(path.parent))
        where.setProperty("role", "secondary")
        layout = QHBoxLayout(row)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(button)
        layout.addWidget(where, 1)
        return row

    def _buttons(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(GRID)
        for text, tip, signal in (
            ("&Open a file …", "A run file or a script (Ctrl+O)", self.open_wanted),
            ("Start from a &script …", "Any script that torchrun starts, unchanged", self.script_wanted),
        ):
            button = QPushButton(text)
            button.setAccessibleName(text.replace("&", ""))
            button.setToolTip(tip)
            button.clicked.connect(signal)
            row.addWidget(button)
        row.addStretch(1)
        self.back_button = QPushButton("&Back")
        self.back_button.setToolTip("Continue with the open run file")
        self.back_button.clicked.connect(self.back_wanted)
        self.back_button.hide()
        row.addWidget(self.back_button)
        return row

    def _lay_out(self) -> None:
        room = self.viewport().width() - 8 * GRID
        columns = max(1, min(4, (room + 2 * GRID) // (CARD_WIDTH + 2 * GRID)))
        if columns == self._columns:
            return
        self._columns = columns
        for index, card in enumerate(self._cards):
            self._grid.addWidget(card, index // columns, index % columns)
        for column in range(4):
            self._grid.setColumnStretch(column, 1 if column < columns else 0)
