"""Checks texts one after the other off the GUI thread; of several that wait, the newest is checked."""

from __future__ import annotations

import threading

from PySide6.QtCore import QObject, Qt, Signal

from torchdeck_app.launch.document.checked import CheckedDocument, CheckRequest, check_document


class Checker(QObject):
    """A thread lives only while there is something to check, so that nothing is left behind."""

    checked = Signal(object)
    """A CheckedDocument, in the GUI thread."""
    _arrived = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lock = threading.Lock()
        self._waiting: CheckRequest | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._arrived.connect(self._deliver, Qt.ConnectionType.QueuedConnection)

    def check(self, request: CheckRequest) -> None:
        """Check `request` next, in place of one that still waits."""
        with self._lock:
            self._waiting = request
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="checking the document", daemon=True)
                self._thread.start()

    def close(self, seconds: float = 0.0) -> None:
        """Deliver nothing any more; waits up to `seconds` for a check under way."""
        self._closed = True
        with self._lock:
            self._waiting, thread = None, self._thread
        if thread is not None and seconds:
            thread.join(seconds)

    def _run(self) -> None:
        """In the thread."""
        while True:
            with self._lock:
                request, self._waiting = self._waiting, None
                if request is None:
                    self._thread = None
                    return
            outcome = check_document(request)
            if self._closed:
                continue
            try:
                self._arrived.emit(outcome)
            except RuntimeError:  # the document was closed meanwhile, and Qt's part of this is gone
                self._closed = True

    def _deliver(self, outcome: CheckedDocument) -> None:
        if not self._closed:
            self.checked.emit(outcome)
