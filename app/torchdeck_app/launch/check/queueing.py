"""Adds the document to the queue, as it is, after its check; off the GUI thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from torchdeck.config.loader import UNNAMED
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.connector import Connector
from torchdeck.queue.entry import DeviceOptions, QueuedFile
from torchdeck.use_cases.queue.adding import Added, AddRequest, add
from torchdeck.use_cases.queue.listing import ListedEntry
from torchdeck.use_cases.queue.status import read_status
from torchdeck_app.bridge.operations import Operation, Operations
from torchdeck_app.bridge.worker_ui import WorkerUi
from torchdeck_app.launch.check.check_rows import problem_rows, refusal_rows
from torchdeck_app.launch.check.launching import WAITING, make_folder
from torchdeck_app.launch.document.checked_text import CheckedDocument
from torchdeck_app.launch.document.run_document import RunDocument


class Queueing(QObject):
    """One run at a time is added; a second press meanwhile does nothing."""

    progressed = Signal(str)
    """Emitted with the pending step; empty when it is over."""
    refused = Signal(object)
    """Emitted if nothing was queued, with a tuple of CheckRow with the reasons."""
    added = Signal(str)
    """Emitted with a sentence about the entry."""

    def __init__(
        self,
        document: RunDocument,
        operations: Operations,
        source: Callable[[], str],
        parent: QObject | None = None,
        *,
        connector: Connector,
    ) -> None:
        """Queue `document` in the home of `connector`; `source` returns its file, empty if it has none."""
        super().__init__(parent)
        self._document, self._operations, self._source = document, operations, source
        self._connector = connector
        self._is_waiting = False
        self._operation: Operation[str] | None = None

    @property
    def is_busy(self) -> bool:
        return self._is_waiting or self._operation is not None

    def add(self) -> None:
        """Queue the run as soon as the last edit is checked."""
        if not self.is_busy:
            self._is_waiting = True
            self.progressed.emit(WAITING)
            self.document_checked()

    def document_checked(self) -> None:
        """Continue after the document was checked."""
        checked = self._document.newest
        if not self._is_waiting or checked is None or checked.version != self._document.version:
            return
        self._is_waiting = False
        if checked.loaded is None:
            self.progressed.emit("")
            self.refused.emit(problem_rows(checked.problems))
            return
        request = AddRequest(checked.loaded, self._file(checked), DeviceOptions())
        folder, connector = checked.folder, self._connector
        self._operation = self._operations.run(
            "adding a run to the queue",
            lambda progress, cancel: _add(request, folder, WorkerUi(connector, progress, cancel)),
            done=self._done,
            failed=self._fail,
        )
        self._operation.progressed.connect(self.progressed)
        self._operation.cancelled.connect(self._end)
        self.progressed.emit("checking")

    def cancel(self) -> None:
        """Cancel; an entry that is already in the queue stays."""
        if self._operation is not None:
            self._operation.cancel()
        elif self._is_waiting:
            self._end()

    def _file(self, checked: CheckedDocument) -> QueuedFile:
        path, source = checked.path or checked.folder / UNNAMED, self._source()
        return QueuedFile(checked.text, str(path), str(checked.folder), is_file=bool(source))

    def _done(self, sentence: str) -> None:
        self._end()
        self.added.emit(sentence)

    def _fail(self, error: Exception) -> None:
        self._end()
        refusal = error if isinstance(error, Refusal) else Refusal(f"{type(error).__name__}: {error}")
        self.refused.emit(refusal_rows(refusal, "queue"))

    def _end(self) -> None:
        self._is_waiting, self._operation = False, None
        self.progressed.emit("")


def _add(request: AddRequest, folder: Path, ui: WorkerUi) -> str:
    """Queue a run; return a sentence about it. Raises Refusal."""
    make_folder(folder)
    home = ui.connector(Path()).home
    return sentence_of(add(request, home, ui), is_served=read_status(home).is_running)


def sentence_of(added: Added, *, is_served: bool) -> str:
    """Return what was queued, with its first warning, and whether something will start it."""
    entry = added.entry
    warning = f" Warning: {added.warnings[0]}." if added.warnings else ""
    server = "" if is_served else " No server runs; start one on the Queue page."
    return f"Queued as {entry.id}: needs {ListedEntry(entry, '').needs}.{warning}{server}"
