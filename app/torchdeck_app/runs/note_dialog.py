"""Tags and a note for the selected runs."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QFormLayout, QLineEdit, QPlainTextEdit, QWidget

from torchdeck.runs.folders.notes import Note, parse_tags
from torchdeck.shown_text import shown
from torchdeck_app.widgets.panel import GRID


class NoteDialog(QDialog):
    """Asks for tags and a note; of several runs the tags are those that all have."""

    given = Signal(object)
    """A Note."""

    def __init__(self, names: list[str], note: Note, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        what = names[0] if len(names) == 1 else f"{len(names):,} runs"
        self.setWindowTitle(shown(f"Tags and note of {what}"))
        self.tags = QLineEdit(", ".join(note.tags))
        self.tags.setPlaceholderText("best, lr-sweep")
        self.tags.setAccessibleName("Tags")
        self.tags.setToolTip("Words to find the run by, divided by commas or spaces")
        self.text = QPlainTextEdit(note.text)
        self.text.setAccessibleName("Note")
        self.text.setToolTip("Anything worth remembering")
        self.text.setTabChangesFocus(True)
        buttons = QDialogButtonBox(
            QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel
        )
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        form = QFormLayout(self)
        form.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        form.setSpacing(GRID)
        form.addRow("&Tags", self.tags)
        form.addRow("&Note", self.text)
        form.addRow(buttons)
        self.resize(56 * GRID, 32 * GRID)
        self.accepted.connect(lambda: self.given.emit(self.note))

    @property
    def note(self) -> Note:
        """What was typed."""
        return Note(parse_tags(self.tags.text()), self.text.toPlainText().strip())
