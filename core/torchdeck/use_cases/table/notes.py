"""Change the user's tags and notes on runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torchdeck.contract.atomic import copy_aside, write_json
from torchdeck.contract.layout import Home
from torchdeck.contract.lock_file import changing
from torchdeck.runs.folders.notes import DamagedNotesError, Note, notes_document, read_notes


def change_notes(
    home: Path,
    run_ids: tuple[str, ...],
    change: Callable[[Note], Note],
    tell: Callable[[str], object] = lambda _: None,
) -> dict[str, Note]:
    """Change the notes of some runs, and return all notes after the change. Safe for two windows at once.

    Args:
        home: TORCHDECK_HOME.
        run_ids: ids of the runs.
        change: returns the note of a run after the change.
        tell: called with a sentence if the file was damaged and a copy of it was kept.

    Raises:
        NewerNotesError: the file is from a newer Torchdeck.
        OSError: it cannot be written; the old one is still there.
    """
    with changing(Home(home).notes):
        try:
            notes = read_notes(home)
        except DamagedNotesError as error:
            notes = {}
            tell(f"{error.what}: a copy is kept in {copy_aside(Home(home).notes).name}")
        for run_id in run_ids:
            notes[run_id] = change(notes.get(run_id, Note()))
        write_json(Home(home).notes, notes_document(notes))
    return {run_id: note for run_id, note in notes.items() if note}
