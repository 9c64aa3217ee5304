"""Names, tags, notes and marks of runs, read and written off the GUI thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QFormLayout, QLineEdit, QPlainTextEdit, QWidget

from torchdeck.runs.folders.notes import Note, StepNote, parse_tags, read_notes
from torchdeck.runs.run_list import RunEntry, RunsSeen
from torchdeck.shown_text import shown
from torchdeck.use_cases.table.notes import change_notes
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.widgets.panel import GRID


class RunNotes(QObject):
    """Store of all notes of a home."""

    changed = Signal(object)
    """Emitted with the notes by run id."""
    failed = Signal(str)

    def __init__(self, operations: Operations, home: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._operations = operations
        self._home = home
        self._notes: Mapping[str, Note] = {}
        self._changed_last = 0

    def read(self) -> None:
        """Read the file; `changed` follows."""
        self._run("reading tags and notes", lambda: read_notes(self._home))

    def follow(self, seen: RunsSeen) -> None:
        """Read the file again if it was changed, by this window or elsewhere."""
        if seen.notes != self._changed_last:
            self._changed_last = seen.notes
            self.read()

    def ask(self, entries: Sequence[RunEntry], parent: QWidget) -> None:
        """Open the dialog that edits the notes of these runs."""
        ids = tuple(entry.id for entry in entries)
        before = common([self._notes.get(id_, Note()) for id_ in ids])
        dialog = NoteDialog([entry.name for entry in entries], before, parent)
        dialog.given.connect(lambda given: self.write(ids, before, given))
        dialog.open()

    def get(self, run_id: str) -> Note:
        """Return the note on a run."""
        return self._notes.get(run_id, Note())

    def toggle_pinned(self, ids: tuple[str, ...]) -> None:
        """Pin runs; unpin them if all are pinned."""
        change = partial(replace, pinned=not self.are_pinned(ids))
        self._run("pinning runs", lambda: change_notes(self._home, ids, change, self.failed.emit))

    def toggle_archived(self, ids: tuple[str, ...]) -> None:
        """Archive runs; bring them back into the list if all are archived."""
        change = partial(replace, archived=not self.are_archived(ids))
        self._run("archiving runs", lambda: change_notes(self._home, ids, change, self.failed.emit))

    def are_pinned(self, ids: tuple[str, ...]) -> bool:
        """Return whether there are runs, and all are pinned."""
        return bool(ids) and all(self.get(run_id).pinned for run_id in ids)

    def are_archived(self, ids: tuple[str, ...]) -> bool:
        """Return whether there are runs, and all are archived."""
        return bool(ids) and all(self.get(run_id).archived for run_id in ids)

    def write(self, ids: tuple[str, ...], before: Note, given: Note) -> None:
        """Replace the common note of all runs by the one given; tags that only some have stay."""

        def change(note: Note) -> Note:
            kept = tuple(tag for tag in note.tags if tag not in before.tags and tag not in given.tags)
            return replace(
                note,
                tags=(*given.tags, *kept),
                text=note.text if given.text == before.text else given.text,
                name=note.name if given.name == before.name else given.name,
            )

        self._run("writing tags and notes", lambda: change_notes(self._home, ids, change, self.failed.emit))

    def write_step(self, run_id: str, given: StepNote) -> None:
        """Write a note on a moment of a run; without text, remove it."""
        self._run(
            "writing tags and notes",
            lambda: change_notes(self._home, (run_id,), lambda note: note.with_step(given), self.failed.emit),
        )

    def _run(self, name: str, call: Callable[[], dict[str, Note]]) -> None:
        self._operations.run(
            name,
            lambda _progress, _cancel: call(),
            done=self._take,
            failed=lambda error: self.failed.emit(f"{name} failed: {error}"),
        )

    def _take(self, notes: dict[str, Note]) -> None:
        self._notes = notes
        self.changed.emit(notes)


def common(notes: Sequence[Note]) -> Note:
    """Return the tags that all have, and the text if it is the same."""
    tags = tuple(tag for tag in notes[0].tags if all(tag in note.tags for note in notes))
    text = notes[0].text if len({note.text for note in notes}) == 1 else ""
    return Note(tags, text, notes[0].name if len(notes) == 1 else "")


class NoteDialog(QDialog):
    """Dialog for tags and a note; for several runs it shows their common tags."""

    given = Signal(object)
    """Emitted with a Note."""

    def __init__(self, names: list[str], note: Note, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        what = names[0] if len(names) == 1 else f"{len(names):,} runs"
        self.setWindowTitle(shown(f"Tags and note of {what}"))
        self.name = QLineEdit(note.name)
        self.name.setPlaceholderText(shown(names[0]))
        self.name.setAccessibleName("Name")
        self.name.setToolTip("Another name for the list; empty: its own name")
        self.tags = QLineEdit(", ".join(note.tags))
        self.tags.setPlaceholderText("best, lr-sweep")
        self.tags.setAccessibleName("Tags")
        self.tags.setToolTip("Words to find the run by, separated by commas or spaces")
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
        if len(names) == 1:
            form.addRow("Na&me", self.name)
        form.addRow("&Tags", self.tags)
        form.addRow("&Note", self.text)
        form.addRow(buttons)
        self.resize(56 * GRID, 32 * GRID)
        self.accepted.connect(lambda: self.given.emit(self.note))

    @property
    def note(self) -> Note:
        """Return the input."""
        name = " ".join(self.name.text().split())
        return Note(parse_tags(self.tags.text()), self.text.toPlainText().strip(), name)
