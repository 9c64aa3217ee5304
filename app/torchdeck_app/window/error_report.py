"""Error of the window itself: shown with its traceback while the window continues."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QPlainTextEdit, QVBoxLayout, QWidget

from torchdeck.shown_text import shown
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.widgets.dialogs import begin_with
from torchdeck_app.widgets.panel import GRID, label

MOST = 20
"""Maximum number of different errors in a report; repeated ones are only counted."""
_REPEATS = 5.0
"""Seconds within which a repeated error does not reopen its closed report."""


class ErrorReports(QObject):
    """Handler of uncaught exceptions in all threads."""

    _raised = Signal(str, str)

    def __init__(self, window: QWidget, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a handler that reports over `window`; `clock` in seconds."""
        super().__init__(window)
        self._window = window
        self._clock = clock
        self._closed: dict[str, float] = {}
        """Errors whose report was closed, and when each came last."""
        self._counts: dict[str, int] = {}
        self._left_out = 0
        self._dialog: ErrorDialog | None = None
        self._raised.connect(self._show, Qt.ConnectionType.QueuedConnection)

    def install(self) -> None:
        """Install as Python's exception hook, also for threads; exceptions still go to standard error."""
        sys.excepthook = self.take
        threading.excepthook = lambda raised: (
            self.take(raised.exc_type, raised.exc_value, raised.exc_traceback)
            if raised.exc_type is not SystemExit
            else None
        )

    def uninstall(self) -> None:
        """Restore Python's hooks when there is no window to show errors."""
        sys.excepthook = sys.__excepthook__
        threading.excepthook = threading.__excepthook__

    def take(
        self, kind: type[BaseException], error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Report an exception; a KeyboardInterrupt ends the program."""
        sys.__excepthook__(kind, error or kind(), where)
        if issubclass(kind, KeyboardInterrupt):
            QGuiApplication.exit(130)
            return
        import traceback  # not needed for the first paint

        lines = traceback.format_exception(kind, error, where)
        self._raised.emit(f"{kind.__name__}: {error}", "".join(lines))

    def _show(self, summary: str, text: str) -> None:
        now = self._clock()
        if text in self._closed and now - self._closed[text] < _REPEATS:
            self._closed[text] = now
            return
        if text in self._counts:
            self._counts[text] += 1
        elif len(self._counts) < MOST:
            self._counts[text] = 1
        else:
            self._left_out += 1
        if self._dialog is None:
            self._dialog = ErrorDialog(summary, self._window)
            self._dialog.finished.connect(self._forget)
            self._dialog.show()
        self._dialog.show_report(self._report())

    def _report(self) -> str:
        parts = [text if count == 1 else f"{text}({count} times)\n" for text, count in self._counts.items()]
        if self._left_out:
            parts.append(f"and {self._left_out} more\n")
        return "\n".join(parts)

    def _forget(self) -> None:
        if self._dialog is not None:
            self._dialog.deleteLater()
        self._dialog = None
        self._closed = dict.fromkeys(self._counts, self._clock())
        self._counts.clear()
        self._left_out = 0


class ErrorDialog(QDialog):
    """Non-modal dialog: the window stays usable."""

    def __init__(self, summary: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Error in Torchdeck")
        begin_with(self, 80 * GRID, 50 * GRID)
        heading = label(summary[:300], Type.HEADING, wrap=True)
        self._text = QPlainTextEdit()
        self._text.setReadOnly(True)
        self._text.setFont(font(Type.MONO))
        self._text.setAccessibleName("Traceback")
        self._text.setTabChangesFocus(True)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        copy = buttons.addButton("&Copy", QDialogButtonBox.ButtonRole.ActionRole)
        copy.setToolTip("Copy the report, to send it to the developers")
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self._text.toPlainText()))
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(GRID)
        column.addWidget(heading)
        said = "Something went wrong in the app. Your runs are not affected."
        column.addWidget(label(said, role="secondary", wrap=True))
        column.addWidget(self._text, 1)
        column.addWidget(buttons)

    def show_report(self, text: str) -> None:
        """Show all errors so far."""
        self._text.setPlainText(shown(text))
