"""Unreadable sections of a run's journals."""

from __future__ import annotations

import calendar
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from torchdeck.contract.atomic import read_json
from torchdeck.contract.journal import Event, JournalReader, NodeJournalReader
from torchdeck.contract.layout import RUN_ID, RunLayout
from torchdeck.quantities import size


@dataclass(frozen=True)
class JournalDamage:
    """Unreadable sections of one journal."""

    path: str
    """Relative to the run's directory."""
    node: str = ""
    """Node of the journal; empty: the controller's."""
    lines: int = 0
    """Lines that are not events."""
    skimmed: int = 0
    """Bytes of a journal that is too large to be read as a whole."""
    problem: str = ""
    """Why no more of it can be read; else empty."""

    @classmethod
    def of(cls, reader: JournalReader, path: str, node: str = "") -> Self | None:
        """Return the damage `reader` has met so far; None if it read everything."""
        problem = reader.problem if isinstance(reader, NodeJournalReader) else ""
        found = cls(path, node, reader.torn, reader.skimmed, problem)
        return found if found.hides_events or found.skimmed else None

    @property
    def hides_events(self) -> bool:
        """Whether events that determine a run's state may be unreadable."""
        return bool(self.lines or self.problem)

    @property
    def text(self) -> str:
        """Sentence that names the file."""
        if self.problem:
            return f"{self.path} cannot be read: {self.problem}"
        if not self.lines:
            return f"{self.path} is large: {size(self.skimmed)} in its middle were only skimmed"
        what = "1 line" if self.lines == 1 else f"{self.lines} lines"
        return f"{what} of {self.path} cannot be read (torn by a crash or a full disk, or damaged)"


# The journal's `created` line, rebuilt from the run's plan and id if it is damaged.

_COPIED = ("name", "kind", "target", "strategy", "world_size", "fingerprint")


def rebuilt_created(layout: RunLayout) -> Event | None:
    """Return the event without what only the launcher knew, such as the run file's path; None without a
    plan.
    """
    try:
        plan = read_json(layout.plan)
    except OSError:
        return None
    if not isinstance(plan, Mapping):
        return None
    fields = {name: plan[name] for name in _COPIED if name in plan}
    code = plan.get("code")
    if isinstance(code, Mapping) and code.get("folder"):
        fields["code_folder"] = code["folder"]
    return Event("created", _time_of(layout.root.name), 0.0, {**fields, "rebuilt": True})


def _time_of(run_id: str) -> float:
    """Return the time at the start of a run's id, in unix seconds; 0 if it is not an id."""
    if not RUN_ID.fullmatch(run_id):
        return 0.0
    try:
        return float(calendar.timegm(time.strptime(run_id.partition("-")[0], "%Y%m%dT%H%M%SZ")))
    except ValueError:
        return 0.0
