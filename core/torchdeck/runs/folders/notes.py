"""The user's tags and notes on runs: one small file next to the runs, never in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchdeck.contract.atomic import read_json
from torchdeck.contract.layout import Home
from torchdeck.contract.refusal import Refusal

_VERSION = 1


@dataclass(frozen=True)
class Note:
    """Tags and note on one run."""

    tags: tuple[str, ...] = ()
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.tags or self.text)


class NewerNotesError(Refusal):
    """The file is from a newer Torchdeck; it is neither read nor written."""


def parse_tags(text: str) -> tuple[str, ...]:
    """Parse typed tags, separated by commas or spaces; each once, in their order."""
    return tuple(dict.fromkeys(text.replace(",", " ").split()))


def read_notes(home: Path) -> dict[str, Note]:
    """Read notes by run id; a damaged file has none.

    Raises:
        NewerNotesError: the file is from a newer Torchdeck.
        OSError: it cannot be read.
    """
    value = read_json(Home(home).notes)
    if not isinstance(value, Mapping):
        return {}
    if isinstance(value.get("v"), int) and value["v"] > _VERSION:
        raise NewerNotesError(f"{Home(home).notes} was written by a newer Torchdeck: update this one")
    runs = value.get("runs")
    if not isinstance(runs, Mapping):
        return {}
    return {str(run_id): note for run_id, item in runs.items() if (note := _note(item))}


def notes_document(notes: Mapping[str, Note]) -> dict[str, Any]:
    """Return what the file holds for notes by run id; empty notes are left out."""
    runs = {run_id: {"tags": list(note.tags), "text": note.text} for run_id, note in notes.items() if note}
    return {"v": _VERSION, "runs": runs}


def _note(value: Any) -> Note:
    if not isinstance(value, Mapping):
        return Note()
    tags, text = value.get("tags"), value.get("text")
    return Note(
        tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else (),
        text if isinstance(text, str) else "",
    )
