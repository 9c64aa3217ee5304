"""Session restored at the next start: window position, open files and unsaved input."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchdeck.contract.layout import Home

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
