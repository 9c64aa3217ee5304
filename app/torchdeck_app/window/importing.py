"""Imports after the first paint: the modules of a page take a while, and the window stays responsive.

PySide makes the Python types of Qt's classes when they are first used, and two threads that do so at once end
the process (seen with pyqtgraph and PySide 6.11). So the thread imports what has no Qt; pyqtgraph and the
window's modules are imported by the GUI thread, one in a turn of its event loop.
"""

from __future__ import annotations

import threading
from collections import deque
from importlib import import_module
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal

_BY_GUI_THREAD = ("pyqtgraph", "torchdeck_app")


class Importer(QObject):
    """Imports modules in the order of the requests; a thread has them imported one after the other."""

    imported = Signal(str)
    """Emitted with the name of a request whose modules are imported."""
    failed = Signal(str, Exception)
    """Emitted with the name of a request and the exception of its import."""
    _over = Signal(str, object)
    _wanted_here = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lock = threading.Lock()
        self._waiting: deque[tuple[str, tuple[str, ...]]] = deque()
        self._is_running = False
        self._thread: threading.Thread | None = None
        self._is_closing = False
        self._answered = threading.Event()
        """Set once the GUI thread has done what this thread waits for."""
        self._failure: Exception | None = None
        self._over.connect(self._tell, Qt.ConnectionType.QueuedConnection)
        self._wanted_here.connect(self._import_here, Qt.ConnectionType.QueuedConnection)

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
        self._is_closing = True
        self._answered.set()
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
            error: Exception | None = None
            try:
                for module in modules:
                    if module.startswith(_BY_GUI_THREAD):
                        self._import_by_gui_thread(module)
                    else:
                        import_module(module)
            except Exception as raised:  # noqa: BLE001 - the place says what it was
                error = raised
            try:
                self._wait_for(self._over, name, error)
            except RuntimeError:  # the window is gone
                return

    def _wait_for(self, signal: Any, *arguments: object) -> None:
        """Let the GUI thread do something, and wait for it; in the thread."""
        self._answered.clear()
        signal.emit(*arguments)
        if not self._is_closing:
            self._answered.wait()

    def _import_by_gui_thread(self, module: str) -> None:
        """Have the GUI thread import a module, and raise what it raised; in the thread."""
        self._wait_for(self._wanted_here, module)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _import_here(self, module: str) -> None:
        """Import a module, in the GUI thread."""
        try:
            import_module(module)
        except Exception as raised:  # noqa: BLE001 - the place says what it was
            self._failure = raised
        self._answered.set()

    def _tell(self, name: str, error: Exception | None) -> None:
        """Deliver results, in the GUI thread."""
        try:
            if error is None:
                self.imported.emit(name)
            else:
                self.failed.emit(name, error)
        finally:
            self._answered.set()
