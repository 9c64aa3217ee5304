"""Opener of things of a run in the user's own programs; failures are reported by a signal."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QUrl, Signal
from PySide6.QtGui import QDesktopServices

from torchdeck.contract.layout import RunLayout
from torchdeck.runs.failures.code_place import CodePlace
from torchdeck.use_cases.opening.editor import EditorUrl
from torchdeck.use_cases.opening.editor_choice import Editor
from torchdeck.use_cases.opening.programs import Programs
from torchdeck.use_cases.opening.start import editor_at, start_editor
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.widgets.help import page_of


class OutsidePrograms(QObject):
    """Opens an editor for runs, off the GUI thread."""

    failed = Signal(str, str, str)
    """Emitted with a run's id, why nothing was opened, and the page of the documentation that helps."""

    def __init__(self, operations: Operations, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._operations = operations
        self.editor: Callable[[], Editor] = Editor
        """Returns the editor that the user has chosen."""
        self.programs = Programs()

    def open_source(self, layout: RunLayout, place: CodePlace, rank: int | None) -> None:
        """Open the editor at a place that the output of a rank names."""
        editor, run_id = self.editor(), layout.root.name

        def call(_progress: object, _cancel: object) -> EditorUrl | None:
            found = editor_at(layout, place, rank, editor, self.programs)
            if isinstance(found, EditorUrl):
                return found
            start_editor(found, self.programs)
            return None

        self._operations.run(
            "opening the editor",
            call,
            done=lambda found: self._open_url(run_id, found),
            failed=lambda error: self.failed.emit(run_id, f"Nothing was opened: {error}", page_of(error)),
        )

    def _open_url(self, run_id: str, found: EditorUrl | None) -> None:
        if found is None:
            return
        url = QUrl.fromEncoded(found.url.encode("utf-8"), QUrl.ParsingMode.StrictMode)
        if not url.isValid() or not QDesktopServices.openUrl(url):
            why = (
                f"Nothing was opened: no program of this desktop opens {found.url}. Is the editor installed?"
            )
            self.failed.emit(run_id, why, "window#your-editor-and-terminal")
