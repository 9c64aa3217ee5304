"""Background query whose answer changes with every edit: only the newest matters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from PySide6.QtCore import QObject, QTimer, Signal

from torchdeck_app.bridge.operations import Operation, Operations

T = TypeVar("T")
_NOTICED = 200
"""Milliseconds after which a wait is reported."""


class Latest(QObject, Generic[T]):
    """Runner of one query at a time off the GUI thread; older queries are dropped for the newest."""

    answered = Signal(object)
    failed = Signal(Exception)
    waiting = Signal()
    """Emitted if the answer does not come at once."""
    settled = Signal()
    """Emitted when nothing is pending any more."""

    def __init__(self, operations: Operations, name: str, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._operations = operations
        self._name = name
        self._running: Operation[T] | None = None
        self._next: Callable[[], T] | None = None
        self._wanted = False
        self._late = QTimer(self, singleShot=True, interval=_NOTICED)
        self._late.timeout.connect(self.waiting)

    def ask(self, call: Callable[[], T]) -> None:
        """Answer `call()`, which must touch no widget, as soon as the current query is over."""
        self._wanted = True
        if not self._late.isActive():
            self._late.start()
        if self._running is not None:
            self._next = call
            return
        self._start(call)

    def forget(self) -> None:
        """Drop all queries."""
        self._wanted, self._next = False, None
        self._settle()

    def _start(self, call: Callable[[], T]) -> None:
        self._next = None
        operation = self._operations.run(self._name, lambda _progress, _cancel: call())
        self._running = operation
        operation.succeeded.connect(lambda value: self._over(lambda: self.answered.emit(value)))
        operation.failed.connect(lambda error: self._over(lambda: self.failed.emit(error)))
        operation.cancelled.connect(lambda: self._over(lambda: None))

    def _over(self, deliver: Callable[[], None]) -> None:
        self._running = None
        if self._next is not None:
            self._start(self._next)
        elif self._wanted:
            self._wanted = False
            self._settle()
            deliver()

    def _settle(self) -> None:
        self._late.stop()
        self.settled.emit()
