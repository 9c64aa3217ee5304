"""User settings and their file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from torchdeck.contract.layout import Home
from torchdeck_app.settings.saved_files import BackgroundWriter
from torchdeck_app.theme.theme import MODES, Mode

VERSION = 1
THEMES: Mapping[Mode, str] = {"system": "As the system", "light": "Light", "dark": "Dark"}
"""Theme modes and their labels."""


def settings_file(home: Path) -> Path:
    """Return the path of the settings in TORCHDECK_HOME."""
    return Home(home).settings


@dataclass(frozen=True)
class Settings:
    """Settings with the defaults of a first start."""

    theme: Mode = "system"
    ask_on_close: bool = False
    """Confirm before closing while runs are active; they continue either way."""
    notify_in_window: bool = True
    notify_on_desktop: bool = True

    def to_text(self) -> str:
        """Return the content of the file."""
        return json.dumps({"version": VERSION, **dataclasses.asdict(self)}, indent=1) + "\n"


def read_settings(table: Mapping[str, Any]) -> tuple[Settings, str]:
    """Return the settings of a file's table, and a sentence on values that were skipped; else empty."""
    chosen: dict[str, Any] = {}
    wrong = []
    for field in dataclasses.fields(Settings):
        if field.name not in table:
            continue
        value = table[field.name]
        if value in MODES if field.name == "theme" else isinstance(value, bool):
            chosen[field.name] = value
        else:
            right = "one of " + ", ".join(MODES) if field.name == "theme" else "true or false"
            wrong.append(f"{field.name} = {json.dumps(value)} (must be {right})")
    said = f"settings.json: passed over {'; '.join(wrong)}." if wrong else ""
    return Settings(**chosen), said


class SettingsStore(QObject):
    """Store that provides the settings and saves changes."""

    changed = Signal()

    def __init__(
        self, settings: Settings, home: Path, writer: BackgroundWriter, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._settings = settings
        self.home = home
        """TORCHDECK_HOME."""
        self._path = settings_file(home)
        self._writer = writer

    @property
    def settings(self) -> Settings:
        return self._settings

    def change(self, **values: Any) -> None:
        """Change fields of Settings by `values`.

        Raises:
            TypeError: there is no such setting.
        """
        changed = dataclasses.replace(self._settings, **values)
        if changed != self._settings:
            self._writer.write(self._path, changed.to_text())
            self._settings = changed
            self.changed.emit()
