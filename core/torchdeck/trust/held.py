"""Something that a run would execute, and that may not be executed (yet)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Held(NamedTuple):
    """Something that may not run (yet)."""

    folder: Path
    """What has to be trusted; without symbolic links."""
    what: str
    """A sentence without its full stop."""
    fix: str
    can_be_trusted: bool = True
    """False where others can write it: it has to be changed first."""

    def __str__(self) -> str:
        return f"{self.what}: {self.fix}"
