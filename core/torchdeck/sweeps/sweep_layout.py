"""Files of a sweep, in `sweeps/ID` of TORCHDECK_HOME."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.layout import Home


class SweepLayout(NamedTuple):
    """Paths of one sweep."""

    root: Path

    @property
    def id(self) -> str:
        return self.root.name

    @property
    def home(self) -> Home:
        """TORCHDECK_HOME of the sweep."""
        return Home(self.root.parent.parent)

    @property
    def request(self) -> Path:
        """Request at the beginning (the command that began it)."""
        return self.root / "request.json"

    @property
    def journal(self) -> Path:
        """Events of the trials (the driver, while it holds the lock)."""
        return self.root / "journal.jsonl"

    @property
    def changes(self) -> Path:
        """Later requests: more trials, other values, stop, resume (front ends, one at a time)."""
        return self.root / "changes.jsonl"

    @property
    def lock(self) -> Path:
        """Held by the driver with flock."""
        return self.root / "driver.lock"

    @property
    def log(self) -> Path:
        """Output of a detached driver."""
        return self.root / "driver.log"

    @property
    def suffix(self) -> str:
        """The random end of the id, which is in the names of its runs."""
        return self.id.rpartition("-")[2]
