"""Code of a run that may not be executed (yet)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Held(NamedTuple):
    """Code that may not run (yet)."""

    folder: Path
    """Folder or file to trust, without symbolic links."""
    what: str
    """Sentence without its period."""
    fix: str
    can_be_trusted: bool = True
    """False if others can write it: it has to be changed first."""

    def __str__(self) -> str:
        return f"{self.what}: {self.fix}"
