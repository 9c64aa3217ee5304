"""Keeps the session's file up to date while the window is open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, QTimer

from torchdeck_app.settings.background_writer import BackgroundWriter
from torchdeck_app.window.hands import Hands
from torchdeck_app.window.session import Session

INTERVAL = 500
"""Milliseconds between two looks: with the time to write it, less than a second of edits can be lost."""
RARELY = 10_000
"""While nobody is at the window, who alone changes most of it."""


class SessionKeeper(QObject):
    """Asks for the session again and again, and has it written where it is another."""

    def __init__(
        self,
        path: Path,
        writer: BackgroundWriter,
        ask: Callable[[], Session],
        hands: Hands,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._path = path
        self._writer = writer
        self._ask = ask
        self._hands = hands
        self._text = ""
        self._clock = QTimer(self)
        self._clock.setInterval(INTERVAL)
        self._clock.timeout.connect(self.look)
        hands.came.connect(lambda: self._clock.setInterval(INTERVAL))
        hands.left.connect(lambda: self._clock.setInterval(RARELY))

    def start(self) -> None:
        """From now on; what the session is now needs no writing."""
        self._text = self._ask().to_text()
        self._clock.start()

    def look(self) -> None:
        """Have it written, where it has changed."""
        text = self._ask().to_text()
        if text != self._text:
            self._text = text
            self._hands.touch()  # an input method changes texts without a key that the window sees
            self._writer.write(self._path, text)

    def stop(self) -> None:
        """Look a last time."""
        if self._clock.isActive():
            self._clock.stop()
            self.look()
