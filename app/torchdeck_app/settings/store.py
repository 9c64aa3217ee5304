"""Settings in use, and their file."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from torchdeck_app.settings.background_writer import BackgroundWriter
from torchdeck_app.settings.settings import Settings, settings_file


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

    def take(self, settings: Settings) -> None:
        """Use these saved settings."""
        if settings != self._settings:
            self._settings = settings
            self.changed.emit()

    def change(self, **values: Any) -> None:
        """Change fields of Settings by `values`.

        Raises:
            TypeError: there is no such setting.
        """
        changed = dataclasses.replace(self._settings, **values)
        if changed != self._settings:
            self._writer.write(self._path, changed.to_text())
            self.take(changed)
