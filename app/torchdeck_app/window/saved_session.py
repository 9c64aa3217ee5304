"""Session of the window: read while Qt is loaded, restored at the start, and kept up to date."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from torchdeck.contract.layout import Home
from torchdeck_app.settings.saved_files import BackgroundWriter, Kept, read_kept
from torchdeck_app.window.idle_user import IdleMonitor

VERSION = 1


def session_file(home: Path) -> Path:
    """Return its path in TORCHDECK_HOME. With several windows, the last write wins."""
    return Home(home).window


@dataclass(frozen=True)
class Session:
    """Session of one window. Missing or invalid values in the file default to those of a first start."""

    geometry: str = ""
    """Qt's geometry in base 64."""
    place: str = ""
    """Name of the current page."""
    places: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """State of each page, by its name."""
    recent: tuple[str, ...] = ()
    """Recent keys of the command palette."""

    def to_text(self) -> str:
        """Return the content of the file."""
        table = {
            "version": VERSION,
            "geometry": self.geometry,
            "place": self.place,
            "places": dict(self.places),
            "recent": list(self.recent),
        }
        return json.dumps(table) + "\n"


def read_session(table: Mapping[str, Any]) -> Session:
    """Return the session of a file's table; values of a wrong type are skipped."""
    places = table.get("places")
    recent = table.get("recent")
    return Session(
        geometry=_text(table.get("geometry")),
        place=_text(table.get("place")),
        places={name: value for name, value in places.items() if isinstance(value, dict)}
        if isinstance(places, dict)
        else {},
        recent=tuple(key for key in recent if isinstance(key, str)) if isinstance(recent, list) else (),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


PATIENCE = 20.0
"""Seconds after which the window continues without it."""
_LOOK = 50
_SAID_AFTER = 1.0


class LateState(QObject):
    """Poller that checks whether settings and session have been read."""

    over = Signal(bool)
    """Emitted once, with whether they have been read."""
    waiting = Signal(float)
    """Emitted with the seconds elapsed if it takes long; 0 once it is over."""

    def __init__(self, kept: SavedState, parent: QObject) -> None:
        super().__init__(parent)
        self._kept = kept
        self._began = 0.0
        self._clock = QTimer(self)
        self._clock.setInterval(_LOOK)
        self._clock.timeout.connect(self._look)

    def start(self) -> None:
        """Start waiting for them; `over` follows, perhaps at once."""
        self._began = time.monotonic()
        self._clock.start()
        self._look()

    def _look(self) -> None:
        waited = time.monotonic() - self._began
        is_read = self._kept.wait(0)
        if not is_read and waited < PATIENCE:
            if waited >= _SAID_AFTER:
                self.waiting.emit(waited)
            return
        self._clock.stop()
        if waited >= _SAID_AFTER:
            self.waiting.emit(0.0)
        self.over.emit(is_read)


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


READ_PATIENCE = 0.3
"""Seconds that the first paint waits for a slow disk; LateState restores what comes later."""


class SavedState:
    """Saved state that starts to be read on construction."""

    def __init__(self, settings: Path, session: Path, *, settings_version: int, session_version: int) -> None:
        self.settings = Kept()
        self.session = Kept()
        self._is_read = threading.Event()

        def read() -> None:
            try:
                self.settings = read_kept(settings, settings_version)
                self.session = read_kept(session, session_version)
            finally:
                self._is_read.set()

        threading.Thread(target=read, name="kept state", daemon=True).start()

    def wait(self, seconds: float = READ_PATIENCE) -> bool:
        """Wait for the state; return whether it has been read. Until then, both are as at a first start."""
        return self._is_read.wait(seconds)

    @property
    def said(self) -> tuple[str, ...]:
        """Return messages about files that could not be used."""
        return tuple(kept.said for kept in (self.settings, self.session) if kept.said)
