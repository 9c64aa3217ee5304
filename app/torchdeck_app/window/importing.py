"""Imports off the GUI thread: the modules of a page take a while, and the window stays responsive."""

from __future__ import annotations

import threading
from collections import deque
from importlib import import_module

from PySide6.QtCore import QObject, Qt, Signal


class Importer(QObject):
    """Thread that imports modules in the order of the requests."""

    imported = Signal(str)
    """Emitted with the name of a request whose modules are imported."""
    failed = Signal(str, Exception)
    """Emitted with the name of a request and the exception of its import."""
    _over = Signal(str, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lock = threading.Lock()
        self._waiting: deque[tuple[str, tuple[str, ...]]] = deque()
        self._is_running = False
        self._thread: threading.Thread | None = None
        self._over.connect(self._tell, Qt.ConnectionType.QueuedConnection)

    def request(self, name: str, modules: tuple[str, ...], *, first: bool = False) -> None:
        """Import `modules`; `imported` or `failed` follows with `name`.

        Args:
            name: name of the request.
            modules: imported in this order.
            first: before all pending requests.
        """
        with self._lock:
            entry = (name, modules)
            if first:
                self._waiting.appendleft(entry)
            else:
                self._waiting.append(entry)
            if self._is_running:
                return
            self._is_running = True
        self._thread = threading.Thread(target=self._run, name="imports", daemon=True)
        self._thread.start()

    def close(self, seconds: float) -> None:
        """Import nothing more; wait at most `seconds` for the current import."""
        with self._lock:
            self._waiting.clear()
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        """Do the work, in the thread."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_running = False
                    return
                name, modules = self._waiting.popleft()
            error = None
            try:
                for module in modules:
                    import_module(module)
            except Exception as raised:  # noqa: BLE001 - the place says what it was
                error = raised
            try:
                self._over.emit(name, error)
            except RuntimeError:  # the window is gone
                return

    def _tell(self, name: str, error: Exception | None) -> None:
        """Deliver results, in the GUI thread."""
        if error is None:
            self.imported.emit(name)
        else:
            self.failed.emit(name, error)
