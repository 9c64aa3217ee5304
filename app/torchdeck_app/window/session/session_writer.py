"""Keeps the session file up to date while the window is open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, QTimer

from torchdeck_app.settings.saved_files import BackgroundWriter
from torchdeck_app.window.idle.idle_monitor import IdleMonitor
from torchdeck_app.window.session.session import Session

INTERVAL = 500
"""Milliseconds between two polls: including the write, less than a second of edits can be lost."""
RARELY = 10_000
"""Milliseconds between two polls while idle; `look_soon` reports changes without input."""


class SessionWriter(QObject):
    """Writer that polls the session and saves it if it has changed."""

    def __init__(
        self,
        path: Path,
        writer: BackgroundWriter,
        ask: Callable[[], Session],
        idle_monitor: IdleMonitor,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._path = path
        self._writer = writer
        self._ask = ask
        self._idle_monitor = idle_monitor
        self._text = ""
        self._clock = QTimer(self)
        self._clock.setInterval(INTERVAL)
        self._clock.timeout.connect(self.look)
        idle_monitor.came.connect(lambda: self._look_each(INTERVAL))
        idle_monitor.left.connect(lambda: self._look_each(RARELY))

    def start(self) -> None:
        """Start polling; the current session need not be written."""
        self._text = self._ask().to_text()
        self._clock.start()

    @property
    def interval(self) -> int:
        """Return the current poll interval in milliseconds."""
        return self._clock.interval()

    def look_soon(self) -> None:
        """Report a change, maybe without window input, such as by an assistive tool."""
        self._look_each(INTERVAL)

    def look(self) -> None:
        """Save the session if it has changed."""
        text = self._ask().to_text()
        if text != self._text:
            self._text = text
            self._idle_monitor.touch()  # an input method changes texts without key events
            self._writer.write(self._path, text)
        elif not self._idle_monitor.are_there:
            self._look_each(RARELY)

    def stop(self) -> None:
        """Poll a last time."""
        if self._clock.isActive():
            self._clock.stop()
            self.look()

    def _look_each(self, interval: int) -> None:
        """Change the interval to `interval` milliseconds if it is different."""
        if self._clock.interval() != interval:
            self._clock.setInterval(interval)
