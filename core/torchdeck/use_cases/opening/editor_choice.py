"""The user's editor, as it is chosen in the settings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EditorKind(StrEnum):
    """Kinds of editors that can be chosen."""

    AUTO = "auto"
    VSCODE = "vscode"
    JETBRAINS = "jetbrains"
    VISUAL = "visual"
    CUSTOM = "custom"


@dataclass(frozen=True)
class Editor:
    """The user's editor."""

    kind: EditorKind = EditorKind.AUTO
    command: str = ""
    """Command of a custom one: words with {file}, {line} and {column}, or a URL with them."""
