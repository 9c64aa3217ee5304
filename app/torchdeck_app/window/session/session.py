"""What is there again at the next start: where the window was, what was open, and what was not saved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchdeck.contract.layout import Home

VERSION = 1


def session_file(home: Path) -> Path:
    """Where it lies in TORCHDECK_HOME. Of several windows the last to write wins."""
    return Home(home).window


@dataclass(frozen=True)
class Session:
    """One window's. Whatever a file does not have, or has wrong, is as at a first start."""

    geometry: str = ""
    """Qt's, in base 64."""
    place: str = ""
    """The one in sight."""
    places: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What each place wants to find again, by its name."""
    recent: tuple[str, ...] = ()
    """Keys of the command palette."""

    def to_text(self) -> str:
        """The content of the file."""
        table = {
            "version": VERSION,
            "geometry": self.geometry,
            "place": self.place,
            "places": dict(self.places),
            "recent": list(self.recent),
        }
        return json.dumps(table) + "\n"


def read_session(table: Mapping[str, Any]) -> Session:
    """The session of a file's table; values of a wrong type are passed over."""
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
