"""Imports after the first paint, one module in a turn of the event loop, so that the window stays responsive.

No thread imports them: PySide makes the Python types of Qt's classes when they are first used, and two
threads that do so at once end the process (seen with pyqtgraph and PySide 6.11).
"""

from __future__ import annotations

from collections import deque
from importlib import import_module

from PySide6.QtCore import QObject, QTimer, Signal


class Importer(QObject):
    """Imports modules in the order of the requests."""

    imported = Signal(str)
    """Emitted with the name of a request whose modules are imported."""
    failed = Signal(str, Exception)
    """Emitted with the name of a request and the exception of its import."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._waiting: deque[tuple[str, deque[str]]] = deque()
        self._turns = QTimer(self, interval=0)
        self._turns.timeout.connect(self._import_next)

    def request(self, name: str, modules: tuple[str, ...], *, first: bool = False) -> None:
        """Import `modules`; `imported` or `failed` follows with `name`.

        Args:
            name: name of the request.
            modules: imported in this order.
            first: before all pending requests.
        """
        entry = (name, deque(modules))
        if first:
            self._waiting.appendleft(entry)
        else:
            self._waiting.append(entry)
        self._turns.start()

    def close(self) -> None:
        """Import nothing more."""
        self._waiting.clear()
        self._turns.stop()

    def _import_next(self) -> None:
        """Import one module, or tell that a request is done."""
        if not self._waiting:
            self._turns.stop()
            return
        name, modules = self._waiting[0]
        if not modules:
            self._waiting.popleft()
            self.imported.emit(name)
            return
        try:
            import_module(modules.popleft())
        except Exception as error:  # noqa: BLE001 - the page says what it was
            self._waiting.popleft()
            self.failed.emit(name, error)
