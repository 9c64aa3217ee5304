"""Blocking calls off the GUI thread: each in a worker, with its outcome delivered to the GUI thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QObject, Qt, QThreadPool, Signal

T = TypeVar("T")
_THREADS = 4


class CancelledError(Exception):
    """The user has cancelled the operation."""


class Cancel:
    """Cancellation flag, checked by a long call between two steps."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        self._event.set()

    @property
    def wanted(self) -> bool:
        return self._event.is_set()

    def check(self) -> None:
        """Raise CancelledError if cancelled."""
        if self._event.is_set():
            raise CancelledError


class Operation(QObject, Generic[T]):
    """Running call. Signals are emitted in the GUI thread; of the last three exactly one."""

    progressed = Signal(str)
    """Emitted with the current step."""
    succeeded = Signal(object)
    failed = Signal(Exception)
    cancelled = Signal()

    def __init__(self, name: str, parent: QObject) -> None:
        super().__init__(parent)
        self.name = name
        """Current step in a few words, such as `tracing the model`."""
        self._cancel = Cancel()
        self.is_over = False

    def cancel(self) -> None:
        """Request cancellation; `cancelled` follows when it has ended."""
        self._cancel.cancel()

    @property
    def token(self) -> Cancel:
        return self._cancel


class _Event(Enum):
    """Reports of a worker on an operation."""

    PROGRESSED = auto()
    SUCCEEDED = auto()
    FAILED = auto()
    CANCELLED = auto()


class Operations(QObject):
    """Runner of operations; at most four at once, the others wait. Finished ones are forgotten."""

    started = Signal(object)
    """Emitted with an Operation, to show its progress."""
    ended = Signal(object)
    _arrived = Signal(object, object, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pool = QThreadPool(self)
        self._pool.setMaxThreadCount(_THREADS)
        self._running: list[Operation[Any]] = []
        self._arrived.connect(self._deliver, Qt.ConnectionType.QueuedConnection)

    @property
    def running(self) -> tuple[Operation[Any], ...]:
        return tuple(self._running)

    def run(
        self,
        name: str,
        call: Callable[[Callable[[str], None], Cancel], T],
        *,
        done: Callable[[T], None] | None = None,
        failed: Callable[[Exception], None] | None = None,
    ) -> Operation[T]:
        """Start `call(progress, cancel)` in a worker.

        Args:
            name: short description of the operation.
            call: must touch no widget; reports progress by its first argument, and checks its second.
            done: called in the GUI thread with the result.
            failed: called in the GUI thread with the exception.
        """
        operation: Operation[T] = Operation(name, self)
        if done is not None:
            operation.succeeded.connect(done)
        if failed is not None:
            operation.failed.connect(failed)
        self._running.append(operation)
        self.started.emit(operation)
        # not a QRunnable subclass: PySide leaks some that end while they are being handed over
        self._pool.start(lambda: self._carry_out(operation, call))
        return operation

    def close(self, milliseconds: int = 2000) -> bool:
        """Cancel all operations and wait; return whether all have ended."""
        for operation in self._running:
            operation.cancel()
        self._pool.clear()
        return self._pool.waitForDone(milliseconds)

    def _carry_out(self, operation: Operation[T], call: Callable[[Callable[[str], None], Cancel], T]) -> None:
        """Run the call, in the worker."""
        cancel = operation.token

        def progress(text: str) -> None:
            cancel.check()
            self._arrived.emit(operation, _Event.PROGRESSED, text)

        try:
            cancel.check()
            outcome: tuple[_Event, Any] = (_Event.SUCCEEDED, call(progress, cancel))
        except CancelledError:
            outcome = (_Event.CANCELLED, None)
        except Exception as error:  # noqa: BLE001 - whoever asked gets it, whatever it is
            outcome = (_Event.FAILED, error)
        with suppress(RuntimeError):  # the window is gone
            self._arrived.emit(operation, *outcome)

    def _deliver(self, operation: Operation[Any], event: _Event, value: object) -> None:
        """Deliver results, in the GUI thread."""
        if event is _Event.PROGRESSED:
            operation.progressed.emit(value)
            return
        if operation.token.wanted:
            event = _Event.CANCELLED
        operation.is_over = True
        if operation in self._running:
            self._running.remove(operation)
        if event is _Event.CANCELLED:
            operation.cancelled.emit()
        elif event is _Event.SUCCEEDED:
            operation.succeeded.emit(value)
        else:
            operation.failed.emit(value)
        self.ended.emit(operation)
        operation.deleteLater()
