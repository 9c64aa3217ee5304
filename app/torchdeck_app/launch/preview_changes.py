"""What was clicked in the preview goes into the document."""

from __future__ import annotations

from typing import Any

from torchdeck.config.toml.document import KeyPath
from torchdeck.config.toml.edit import EditError
from torchdeck_app.launch.document.run_document import RunDocument
from torchdeck_app.launch.files.document_file import DocumentFile
from torchdeck_app.launch.files.notice import Notice


class PreviewChanges:
    """One step of the history each, or a notice that says why not."""

    def __init__(self, document: RunDocument, file: DocumentFile, notice: Notice) -> None:
        self._document, self._file, self._notice = document, file, notice

    def apply(self, values: dict[str | KeyPath, Any]) -> None:
        """Set keys of the run file, dotted or as paths, to values; None resets one."""
        if self._file.damage:
            self._notice.say(f"{self._file.name} cannot be changed: {self._file.damage}", "error")
            return
        try:
            self._document.set_values(values)
        except EditError as error:
            self._notice.say(f"The run file cannot be changed from here: {error}", "error")
