"""The document that form and editor share: history, checks, what it says."""

from __future__ import annotations

import contextlib
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QCoreApplication
from pytestqt.qtbot import QtBot

from support.values.run_files import MINIMAL, write
from torchdeck.config.toml.edit import EditError
from torchdeck_app.launch.document.checked_text import CheckedDocument, CheckRequest, check_document
from torchdeck_app.launch.document.run_document import RunDocument, change_between


class Clock:
    """Stands still unless told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def document(qtbot: QtBot, tmp_path: Path, clock: Clock) -> Iterator[RunDocument]:
    made = RunDocument(tmp_path, clock=clock)
    made.load(MINIMAL, None)
    yield made
    made.close(10.0)


def checked(qtbot: QtBot, document: RunDocument) -> CheckedDocument:
    """What it says once its text of now is checked."""
    qtbot.waitUntil(
        lambda: document.newest is not None and document.newest.version == document.version, timeout=10_000
    )
    assert document.newest is not None
    return document.newest


def type_text(document: RunDocument, text: str) -> None:
    """Type at the end."""
    for letter in text:
        document.set_text(document.text + letter)


def test_what_is_loaded_is_clean_and_checked(qtbot: QtBot, document: RunDocument, tmp_path: Path) -> None:
    """Without history; paths are seen from the home folder until it has a file."""
    outcome = checked(qtbot, document)
    assert outcome.loaded is not None
    assert outcome.loaded.config.run.working_dir == str(tmp_path)
    assert document.undo_stack.isClean()
    assert not document.undo_stack.canUndo()


def test_a_document_with_a_file_is_seen_from_its_folder(qtbot: QtBot, tmp_path: Path) -> None:
    """What it extends too; and once it is saved elsewhere, from there."""
    write(tmp_path, MINIMAL, "a/base.toml")
    document = RunDocument(tmp_path)
    document.load("extends = 'base.toml'\n", tmp_path / "a" / "run.toml")
    loaded = checked(qtbot, document).loaded
    assert loaded is not None
    assert loaded.config.training.steps == 10
    document.saved_as(tmp_path / "b.toml")
    qtbot.waitUntil(lambda: document.newest is not None and document.newest.name == "b.toml")
    assert document.newest is not None
    assert [problem.path for problem in document.newest.problems] == ["extends"]
    document.close(10.0)


def test_a_value_is_one_step_named_after_it(document: RunDocument) -> None:
    """It is written as it was typed, and undo takes back every byte."""
    document.set_value(("training", "lr"), 3e-4, "3e-4")
    assert document.text == MINIMAL + "lr = 3e-4\n"
    assert document.undo_stack.undoText() == "training.lr = 3e-4"
    clean = [document.undo_stack.isClean()]
    document.undo_stack.undo()
    assert document.text == MINIMAL
    assert [*clean, document.undo_stack.isClean()] == [False, True]
    document.undo_stack.redo()
    assert document.table["training"] == {"steps": 10, "lr": 3e-4}


def test_a_value_equal_to_what_is_there_is_no_step(document: RunDocument) -> None:
    """Leaving a field unchanged must not fill the history."""
    document.set_value(("training", "steps"), 10)
    assert not document.undo_stack.canUndo()


def test_a_reset_takes_the_line_out(document: RunDocument) -> None:
    """As one step."""
    document.set_value(("training", "lr"), 0.1)
    document.set_values({"training.lr": None}, "reset training.lr")
    assert document.text == MINIMAL
    assert document.undo_stack.undoText() == "reset training.lr"


def test_several_values_are_one_step(document: RunDocument) -> None:
    """What the preview suggests is taken back with one undo."""
    values: dict[Any, Any] = {"training.microbatch": 4, "training.steps": None, "training.epochs": 2.0}
    document.set_values(values, "apply the suggestion")
    assert document.table["training"] == {"microbatch": 4, "epochs": 2.0}
    document.undo_stack.undo()
    assert document.text == MINIMAL


def test_an_impossible_edit_changes_nothing(document: RunDocument) -> None:
    """The text is not TOML, or a table is in the way."""
    with pytest.raises(EditError):
        document.set_value(("training",), 3)
    type_text(document, "[oh")
    with pytest.raises(EditError):
        document.set_value(("training", "lr"), 0.1)
    assert document.text == MINIMAL + "[oh"


def test_typing_is_merged_by_word(document: RunDocument) -> None:
    """One undo a word and the blank behind it, one a line."""
    type_text(document, "# a few words\nx")
    steps = []
    while document.undo_stack.canUndo():
        document.undo_stack.undo()
        steps.append(document.text.removeprefix(MINIMAL))
    assert steps == ["# a few words\n", "# a few words", "# a few ", "# a ", "# ", ""]


def test_a_pause_ends_an_act_of_typing(document: RunDocument, clock: Clock) -> None:
    """So undo does not take back what was written a minute ago."""
    type_text(document, "#ab")
    clock.now += 2
    type_text(document, "cd")
    document.undo_stack.undo()
    assert document.text == MINIMAL + "#ab"


def test_backspaces_are_merged(document: RunDocument) -> None:
    """But not with the typing before them."""
    type_text(document, "#abc")
    for _ in range(3):
        document.set_text(document.text[:-1])
    assert document.undo_stack.count() == 2
    document.undo_stack.undo()
    assert document.text == MINIMAL + "#abc"


def test_typing_after_a_save_is_a_step_of_its_own(document: RunDocument, tmp_path: Path) -> None:
    """So that undo finds back to what is on disk."""
    type_text(document, "#ab")
    document.saved_as(tmp_path / "run.toml")
    type_text(document, "c")
    document.undo_stack.undo()
    assert (document.text, document.undo_stack.isClean()) == (MINIMAL + "#ab", True)


def test_a_text_that_is_no_toml_keeps_the_last_table(qtbot: QtBot, document: RunDocument) -> None:
    """The form shows it meanwhile; the check says line and sentence."""
    checked(qtbot, document)
    document.set_text(MINIMAL.replace("steps = 10", "steps = "))
    outcome = checked(qtbot, document)
    assert outcome.table is None
    assert [(problem.path, problem.line) for problem in outcome.problems] == [("", 5)]
    assert document.table["training"] == {"steps": 10}


def test_problems_come_with_what_is_written(qtbot: QtBot, document: RunDocument) -> None:
    """A form needs the values though they are wrong."""
    document.set_value(("training", "microbatch"), 0)
    outcome = checked(qtbot, document)
    assert [problem.path for problem in outcome.problems] == ["training.microbatch"]
    assert outcome.written["training"] == {"steps": 10, "microbatch": 0}
    assert outcome.lines[("training", "microbatch")] == 6
    assert outcome.is_own(outcome.problems[0])


def test_the_newest_wins(qtbot: QtBot, document: RunDocument, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that takes long delays neither the edits nor, by more than itself, the newest."""
    checked(qtbot, document)
    gate, begun, seen = threading.Event(), threading.Event(), []

    def slowly(request: CheckRequest) -> CheckedDocument:
        begun.set()
        assert gate.wait(10)
        seen.append(request.text)
        return check_document(request)

    monkeypatch.setattr(document._checker, "_answer", slowly)
    document.set_value(("training", "steps"), 0)
    qtbot.waitUntil(begun.is_set)
    outcomes: list[CheckedDocument] = []
    document.checked.connect(outcomes.append)
    for steps in range(1, 6):
        document.set_value(("training", "steps"), steps)
        QCoreApplication.processEvents()
    gate.set()
    outcome = checked(qtbot, document)
    assert outcomes == [outcome]
    assert outcome.loaded is not None
    assert outcome.loaded.config.training.steps == 5
    assert len(seen) == 2


def test_a_closed_document_says_nothing(
    qtbot: QtBot, document: RunDocument, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even what was under way."""
    checked(qtbot, document)
    gate, begun, ended = threading.Event(), threading.Event(), threading.Event()

    def slowly(request: CheckRequest) -> CheckedDocument:
        begun.set()
        assert gate.wait(10)
        ended.set()
        return check_document(request)

    monkeypatch.setattr(document._checker, "_answer", slowly)
    outcomes: list[CheckedDocument] = []
    document.checked.connect(outcomes.append)
    document.set_value(("training", "steps"), 7)
    qtbot.waitUntil(begun.is_set)
    document.close()
    gate.set()
    document.close(10.0)
    assert ended.is_set()
    QCoreApplication.processEvents()
    assert outcomes == []


@given(st.text("ab\n ", max_size=30), st.text("ab\n ", max_size=30))
def test_a_change_is_the_difference(before: str, after: str) -> None:
    """Applied it gives the other text, undone the first; and it is as small as can be."""
    change = change_between(before, after)
    assert change.apply(before) == after
    assert change.undo().apply(after) == before
    if change.removed and change.inserted:
        assert change.removed[0] != change.inserted[0]
        assert change.removed[-1] != change.inserted[-1]


EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("type"), st.integers(0, 200), st.text('ab1 ="\n[]#.', max_size=3)),
        st.tuples(st.just("delete"), st.integers(0, 200), st.integers(1, 4)),
        st.tuples(st.just("set"), st.sampled_from(["lr", "steps", "clip"]), st.floats(1e-6, 10)),
        st.tuples(st.just("reset"), st.sampled_from(["lr", "steps", "clip"]), st.none()),
    ),
    max_size=25,
)


@given(EDITS)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_undoing_all_gives_the_text_byte_for_byte(qtbot: QtBot, edits: list[Any]) -> None:
    """Whatever was typed and set; and doing it all again gives the last one."""
    original = MINIMAL.replace("\n", "\r\n") + "# the end"
    document = RunDocument(clock=lambda: 0.0)
    document.load(original, None)
    for what, where, value in edits:
        text = document.text
        try:
            if what == "type":
                document.set_text(text[:where] + value + text[where:])
            elif what == "delete":
                document.set_text(text[:where] + text[where + value :])
            elif what == "set":
                document.set_value(("training", where), value)
            else:
                document.set_values({("training", where): None})
        except EditError:
            assert document.text == text
            continue
        with contextlib.suppress(tomllib.TOMLDecodeError):
            assert document.table == tomllib.loads(document.text)
    last = document.text
    document.undo_stack.setIndex(0)
    assert document.text == original
    document.undo_stack.setIndex(document.undo_stack.count())
    assert document.text == last
    document.close()
