"""Row of the table: a run with its note."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torchdeck.runs.folders.notes import Note
from torchdeck.runs.query.expression import Value, Values, key_of, number_in
from torchdeck.runs.query.values import values_of
from torchdeck.runs.run_list import RunEntry


@dataclass(frozen=True)
class Row:
    """Run as the table shows it."""

    entry: RunEntry
    note: Note
    differs: str = ""
    """Settings that not all runs of its program have: `lr 0.001, steps 60`."""

    @property
    def name(self) -> str:
        """The name that the user gave it, or its own."""
        return self.note.name or self.entry.name

    @property
    def label(self) -> str:
        """The name with what differs: `quickstart · lr 0.001`."""
        return f"{self.name} · {self.differs}" if self.differs else self.name

    @cached_property
    def values(self) -> Values:
        """Values by key; none if the run cannot be read."""
        entry = self.entry
        if entry.view is None:
            return {}
        return values_of(entry.view, entry.settings, entry.progress, self.note, entry.metrics)

    def value(self, name: str) -> Value | None:
        """Return the value that a name means, several as one text; None if the run has none."""
        found = self.values.get(key_of(name, self.values), ())
        if len(found) > 1:
            return ", ".join(map(str, found))
        return found[0] if found else None

    def sortable(self, name: str) -> Value | None:
        """Return the value as a number if it is one, else as a text in lower case; None for none or NaN."""
        value = self.value(name)
        if value is None or value != value:
            return None
        number = number_in(value)
        return str(value).lower() if number is None else number
