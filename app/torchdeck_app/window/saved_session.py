"""Session of the window: read while Qt is loaded, restored at the start, and kept up to date."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QTimer

from torchdeck.contract.layout import Home
from torchdeck_app.settings.saved_files import BackgroundWriter, Kept, read_kept

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


INTERVAL = 500
"""Milliseconds between two polls: including the write, less than a second of edits can be lost."""


class SessionWriter(QObject):
    """Writer that polls the session and saves it if it has changed."""

    def __init__(
        self,
        path: Path,
        writer: BackgroundWriter,
        ask: Callable[[], Session],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._path = path
        self._writer = writer
        self._ask = ask
        self._text = ""
        self._clock = QTimer(self)
        self._clock.setInterval(INTERVAL)
        self._clock.timeout.connect(self.look)

    def start(self) -> None:
        """Start polling; the current session need not be written."""
        self._text = self._ask().to_text()
        self._clock.start()

    def look(self) -> None:
        """Save the session if it has changed."""
        text = self._ask().to_text()
        if text != self._text:
            self._text = text
            self._writer.write(self._path, text)

    def stop(self) -> None:
        """Poll a last time."""
        if self._clock.isActive():
            self._clock.stop()
            self.look()


READ_PATIENCE = 5.0
"""Seconds that the window waits for a slow disk; after that it starts with defaults, and saves nothing."""


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
    def messages(self) -> tuple[str, ...]:
        """Return messages about files that could not be used."""
        return tuple(kept.said for kept in (self.settings, self.session) if kept.said)
