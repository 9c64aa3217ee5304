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
from torchdeck.use_cases.opening.editor_choice import Editor, EditorKind
from torchdeck_app.settings.saved_files import BackgroundWriter
from torchdeck_app.theme.theme import MODES, Mode

VERSION = 1
EDITORS: Mapping[EditorKind, str] = {
    EditorKind.AUTO: "The first one found",
    EditorKind.VSCODE: "VS Code",
    EditorKind.JETBRAINS: "PyCharm or another JetBrains editor",
    EditorKind.VISUAL: "The one in $VISUAL",
    EditorKind.CUSTOM: "A command or URL",
}
"""Editors and their labels."""
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
    editor: EditorKind = EditorKind.AUTO
    """Opened at lines of code."""
    editor_command: str = ""
    """Command of a custom editor, with {file}, {line} and {column}."""

    @property
    def chosen_editor(self) -> Editor:
        return Editor(self.editor, self.editor_command if self.editor is EditorKind.CUSTOM else "")

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
        value, right = table[field.name], _RIGHT.get(field.name, "true or false")
        if field.name == "editor" and value in tuple(EditorKind):
            chosen[field.name] = EditorKind(value)
        elif _is_right(field.name, value):
            chosen[field.name] = value
        else:
            wrong.append(f"{field.name} = {json.dumps(value)} (must be {right})")
    said = f"settings.json: passed over {'; '.join(wrong)}." if wrong else ""
    return Settings(**chosen), said


_RIGHT = {
    "theme": "one of " + ", ".join(MODES),
    "editor": "one of " + ", ".join(EditorKind),
    "editor_command": "a text",
}
"""Right values of the settings that are not true or false."""


def _is_right(name: str, value: object) -> bool:
    if name == "theme":
        return value in MODES
    return isinstance(value, str if name == "editor_command" else bool) and name != "editor"


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
