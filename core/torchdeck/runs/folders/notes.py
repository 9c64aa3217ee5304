"""The user's names, tags, notes and marks on runs: one small file next to the runs, never in them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torchdeck.contract.bounded_json import JsonError, read_json_file
from torchdeck.contract.layout import Home
from torchdeck.contract.refusal import Refusal

_VERSION = 2
"""1 had tags and texts alone."""


@dataclass(frozen=True)
class StepNote:
    """Note on one moment of a run."""

    time: float
    """Unix seconds."""
    step: int | None
    """Step at that time, if the run logs steps."""
    text: str


@dataclass(frozen=True)
class Note:
    """Tags, notes and marks on one run."""

    tags: tuple[str, ...] = ()
    text: str = ""
    name: str = ""
    """Name given to the run later; empty: its own."""
    pinned: bool = False
    """It stays on top of the list, and is not deleted."""
    archived: bool = False
    """It is hidden in the list unless archived runs are asked for."""
    steps: tuple[StepNote, ...] = ()
    """Notes on moments, by time."""

    def __bool__(self) -> bool:
        return self != Note()

    def with_step(self, given: StepNote) -> Note:
        """Return a copy with this note at its time; without text, with none there."""
        others = [each for each in self.steps if each.time != given.time]
        kept = [*others, given] if given.text else others
        return replace(self, steps=tuple(sorted(kept, key=lambda each: each.time)))


class NewerNotesError(Refusal):
    """The file is from a newer Torchdeck; it is neither read nor written."""


class DamagedNotesError(Refusal):
    """The file holds no notes that can be read; which runs are pinned is not known."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path} is damaged",
            why,
            fix="repair it, or change any note: that begins a new file and keeps a copy of this one",
        )


def parse_tags(text: str) -> tuple[str, ...]:
    """Parse typed tags, separated by commas or spaces; each once, in their order."""
    return tuple(dict.fromkeys(text.replace(",", " ").split()))


def read_notes(home: Path) -> dict[str, Note]:
    """Read notes by run id; none if there is no file.

    Raises:
        NewerNotesError: the file is from a newer Torchdeck.
        DamagedNotesError: it is damaged.
        OSError: it cannot be read.
    """
    path = Home(home).notes
    try:
        value = read_json_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except JsonError as error:
        raise DamagedNotesError(path, str(error)) from error
    if isinstance(value, Mapping) and isinstance(value.get("v"), int) and value["v"] > _VERSION:
        raise NewerNotesError(f"{path} was written by a newer Torchdeck: update this one")
    runs = value.get("runs") if isinstance(value, Mapping) else None
    if not isinstance(runs, Mapping) or not all(isinstance(item, Mapping) for item in runs.values()):
        raise DamagedNotesError(path, "it is not a table of runs")
    return {str(run_id): note for run_id, item in runs.items() if (note := _note(item))}


def known_notes(home: Path) -> dict[str, Note]:
    """Return the notes by run id; none if they cannot be read: runs are listed all the same.

    What removes something asks `read_notes`: without notes nothing seems pinned.
    """
    with suppress(OSError, Refusal):
        return read_notes(home)
    return {}


def notes_document(notes: Mapping[str, Note]) -> dict[str, Any]:
    """Return what the file holds for notes by run id; empty notes are left out."""
    plain = all(note == Note(note.tags, note.text) for note in notes.values())
    runs = {run_id: _item(note) for run_id, note in notes.items() if note}
    return {"v": 1 if plain else _VERSION, "runs": runs}  # an older version reads what it knows whole


def _item(note: Note) -> dict[str, Any]:
    item: dict[str, Any] = {"tags": list(note.tags), "text": note.text}
    if note.name:
        item["name"] = note.name
    if note.steps:
        item["steps"] = [{"time": each.time, "step": each.step, "text": each.text} for each in note.steps]
    return item | {name: True for name in _MARKS if getattr(note, name)}


_MARKS = ("pinned", "archived")


def _note(value: Mapping[str, Any]) -> Note:
    tags, text, name = value.get("tags"), value.get("text"), value.get("name")
    return Note(
        tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else (),
        text if isinstance(text, str) else "",
        name if isinstance(name, str) else "",
        pinned=value.get("pinned") is True,
        archived=value.get("archived") is True,
        steps=_steps(value.get("steps")),
    )


def _steps(value: Any) -> tuple[StepNote, ...]:
    """Return the valid ones of some notes on moments."""
    found = []
    for item in value if isinstance(value, list) else ():
        if isinstance(item, Mapping) and isinstance(item.get("text"), str):
            time, step = item.get("time"), item.get("step")
            if isinstance(time, (int, float)) and math.isfinite(time):
                found.append(StepNote(float(time), step if isinstance(step, int) else None, item["text"]))
    return tuple(sorted(found, key=lambda each: each.time))
