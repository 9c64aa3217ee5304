"""Tags and notes of runs."""

from dataclasses import replace
from pathlib import Path

import pytest

from torchdeck.runs.folders.notes import (
    DamagedNotesError,
    NewerNotesError,
    Note,
    StepNote,
    known_notes,
    parse_tags,
    read_notes,
)
from torchdeck.use_cases.table.notes import change_notes


def test_what_is_written_is_read(tmp_path: Path) -> None:
    change_notes(tmp_path, ("a", "b"), lambda note: replace(note, tags=("best",)))
    change_notes(tmp_path, ("a",), lambda note: replace(note, text="überall"))
    assert read_notes(tmp_path) == {"a": Note(("best",), "überall"), "b": Note(("best",))}


def test_a_note_that_says_nothing_is_not_kept(tmp_path: Path) -> None:
    change_notes(tmp_path, ("a",), lambda _note: Note(("x",)))
    assert change_notes(tmp_path, ("a",), lambda _note: Note()) == {}


@pytest.mark.parametrize("content", ["", "[1", "3", '{"runs": 1}', '{"runs": {"a": 3}}'])
def test_a_damaged_file_is_told_and_copied_before_it_is_replaced(tmp_path: Path, content: str) -> None:
    (tmp_path / "notes.json").write_text(content)
    with pytest.raises(DamagedNotesError, match="damaged"):
        read_notes(tmp_path)
    assert known_notes(tmp_path) == {}
    told: list[str] = []
    assert change_notes(tmp_path, ("a",), lambda _note: Note(("x",)), told.append) == {"a": Note(("x",))}
    (copy,) = tmp_path.glob("notes.json.damaged-*")
    assert copy.read_text() == content
    assert copy.name in told[0]
    assert read_notes(tmp_path) == {"a": Note(("x",))}


def test_a_newer_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text('{"v": 99}')
    with pytest.raises(NewerNotesError, match="newer"):
        change_notes(tmp_path, ("a",), lambda note: note)
    assert (tmp_path / "notes.json").read_text() == '{"v": 99}'


def test_tags_are_divided_by_commas_or_spaces() -> None:
    assert parse_tags(" best, lr-sweep best  x,") == ("best", "lr-sweep", "x")


def test_marks_are_kept_and_older_versions_read_a_file_without_them(tmp_path: Path) -> None:
    change_notes(tmp_path, ("a",), lambda note: replace(note, tags=("best",)))
    assert '"v": 1' in (tmp_path / "notes.json").read_text()
    marked = Note(("best",), name="mine", pinned=True, archived=True)
    change_notes(tmp_path, ("a",), lambda _note: marked)
    assert read_notes(tmp_path) == {"a": marked}
    assert '"v": 2' in (tmp_path / "notes.json").read_text()


def test_notes_on_moments_are_kept_by_time_and_go_without_text() -> None:
    late, early = StepNote(20.0, 2, "late"), StepNote(10.0, None, "early")
    note = Note().with_step(late).with_step(early)
    assert note.steps == (early, late)
    assert note.with_step(StepNote(20.0, 2, "")).steps == (early,)
    assert note.with_step(StepNote(20.0, 2, "later")).steps[1].text == "later"
