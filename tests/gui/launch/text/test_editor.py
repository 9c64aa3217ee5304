"""The text of a run file, typed as a person types."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextCharFormat
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from torchdeck.config.starting_files import preset_text
from torchdeck_app.launch.document.run_document import RunDocument
from torchdeck_app.launch.text.editor import TomlEditor
from torchdeck_app.theme.palette import DARK, LIGHT, ColourName
from torchdeck_app.theme.theme import Theme

TEXT = '# run\nname = "a\u00a0𝄞"\n\n[run]\nrecipe = "byte-gpt"\n\n[training]\nsteps = 10\n'


@pytest.fixture
def document(qapp: object, tmp_path: Path) -> Iterator[RunDocument]:
    made = RunDocument(tmp_path)
    made.load(TEXT, None)
    yield made
    made.close(5.0)


@pytest.fixture
def editor(qtbot: QtBot, theme: Theme, document: RunDocument) -> TomlEditor:
    made = TomlEditor(theme, document)
    qtbot.addWidget(made)
    made.resize(600, 400)
    made.show()
    qtbot.waitExposed(made)
    made.area.setFocus()
    return made


def put_cursor(editor: TomlEditor, text: str) -> None:
    """Behind `text`, which stands there once."""
    cursor = editor.area.document().find(text)
    cursor.setPosition(cursor.selectionEnd())
    editor.area.setTextCursor(cursor)


def test_typing_goes_into_the_document(qtbot: QtBot, editor: TomlEditor, document: RunDocument) -> None:
    """Nothing else changes: no-break spaces and letters of other planes stay."""
    put_cursor(editor, "steps = 10")
    QTest.keyClicks(editor.area, "0")
    assert document.text == TEXT.replace("10", "100")
    document.undo_stack.undo()
    assert document.text == TEXT
    assert editor.area.text() == TEXT


def test_a_change_from_elsewhere_keeps_the_cursor(
    qtbot: QtBot, editor: TomlEditor, document: RunDocument
) -> None:
    put_cursor(editor, "[training]")
    row, column = editor.area.place()
    document.set_value(("training", "steps"), 99)
    assert editor.area.text() == document.text
    assert editor.area.place() == (row, column)
    document.set_text("# new first line\n" + document.text, "above")
    assert editor.area.place() == (row + 1, column)
    document.undo_stack.undo()
    document.undo_stack.undo()
    assert editor.area.text() == TEXT


def test_undo_is_the_windows(qtbot: QtBot, editor: TomlEditor, document: RunDocument) -> None:
    """The editor has no history of its own, and lets Ctrl+Z pass to the window's action."""
    put_cursor(editor, "steps = 10")
    QTest.keyClicks(editor.area, "0")
    assert not editor.area.document().isUndoAvailable()
    QTest.keyClick(editor.area, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert document.text != TEXT


def test_problems_are_marked(qtbot: QtBot, editor: TomlEditor, document: RunDocument) -> None:
    with qtbot.waitSignal(document.checked, timeout=5000):
        document.set_value(("training", "steps"), -3)
    qtbot.waitUntil(lambda: "training.steps" in editor.area.mark(8), timeout=5000)
    assert "Expected: " in editor.area.help_at(7, 20)
    waves = QTextCharFormat.UnderlineStyle.WaveUnderline
    assert any(extra.format.underlineStyle() == waves for extra in editor.area.extraSelections())
    document.undo_stack.undo()
    qtbot.waitUntil(lambda: editor.area.mark(8) == "", timeout=5000)


def test_completion_from_the_keyboard(qtbot: QtBot, editor: TomlEditor, document: RunDocument) -> None:
    """Ctrl+Space, some letters, Enter."""
    put_cursor(editor, "steps = 10")
    QTest.keyClick(editor.area, Qt.Key.Key_Return)
    QTest.keyClicks(editor.area, "sche")
    QTest.keyClick(editor.area, Qt.Key.Key_Space, Qt.KeyboardModifier.ControlModifier)
    assert editor.popup.isVisible()
    QTest.keyClick(editor.area, Qt.Key.Key_Return)
    assert "schedule = " in document.text
    QTest.keyClick(editor.area, Qt.Key.Key_Space, Qt.KeyboardModifier.ControlModifier)
    QTest.keyClicks(editor.area, "cos")
    QTest.keyClick(editor.area, Qt.Key.Key_Tab)
    assert 'schedule = "cosine"\n' in document.text
    assert not editor.popup.isVisible()
    QTest.keyClick(editor.area, Qt.Key.Key_Space, Qt.KeyboardModifier.ControlModifier)
    QTest.keyClick(editor.area, Qt.Key.Key_Escape)
    assert not editor.popup.isVisible()


def test_finding(qtbot: QtBot, editor: TomlEditor, document: RunDocument) -> None:
    document.set_text(preset_text("quickstart"), "preset")
    editor.open_find()
    QTest.keyClicks(editor.bar.field, "EVERY")
    count = preset_text("quickstart").lower().count("every")
    selected = editor.area.textCursor()
    assert selected.selectedText() == "every"
    QTest.keyClick(editor.bar.field, Qt.Key.Key_Return)
    assert editor.area.textCursor().position() > selected.position()
    QTest.keyClick(editor.bar.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert editor.area.textCursor().position() == selected.position()
    assert f"1 of {count}" in editor.bar._count.text()
    QTest.keyClick(editor.bar.field, Qt.Key.Key_Escape)
    assert editor.bar.isHidden()
    assert editor.area.hasFocus()


def test_going_to_a_line(qtbot: QtBot, editor: TomlEditor) -> None:
    editor.go_to_line()
    QTest.keyClicks(editor.bar.field, "7")
    QTest.keyClick(editor.bar.field, Qt.Key.Key_Return)
    assert editor.area.current_line() == 7
    editor.reveal(10_000)
    assert editor.area.current_line() == editor.area.line_count()


def test_colours_follow_the_theme(qtbot: QtBot, editor: TomlEditor, theme: Theme) -> None:
    def colour_of_comment() -> str:
        formats = editor.area.document().firstBlock().layout().formats()
        return formats[0].format.foreground().color().name()

    assert colour_of_comment() == LIGHT.secondary
    theme.set_mode("dark")
    assert colour_of_comment() == DARK.secondary
    assert document_unchanged(editor)


def document_unchanged(editor: TomlEditor) -> bool:
    return editor._document.undo_stack.isClean()


def test_a_megabyte_is_typed_into_without_delay(
    qtbot: QtBot, editor: TomlEditor, document: RunDocument
) -> None:
    """In a text of the greatest size that is read; the benchmark `window_typing` says how fast."""
    document.load('[run]\nmodule = "m"\nargs = [\n' + '"--some-option=of-a-script",\n' * 30_000 + "]\n", None)
    put_cursor(editor, 'module = "m')
    QTest.keyClicks(editor.area, "x")
    assert 'module = "mx"' in document.text


def painted(editor: TomlEditor, colour: ColourName) -> int:
    """Pixels of the text area in a colour of the theme."""
    image = editor.area.viewport().grab().toImage()
    wanted = editor.area._theme.colour(colour).rgb()
    return sum(image.pixel(x, y) == wanted for x in range(image.width()) for y in range(image.height()))


def test_hidden_characters_are_named_and_stay(
    qtbot: QtBot, editor: TomlEditor, document: RunDocument
) -> None:
    """One that turns text around, and one without width: by name behind the line, and in its tooltip."""
    before = painted(editor, "bad")
    text = TEXT.replace('"byte-gpt"', '"byte-gpt" # \u202etpg-etyb\u202c\u200b')
    document.set_text(text, "hidden")
    qtbot.waitUntil(lambda: "U+202E (RIGHT-TO-LEFT OVERRIDE)" in editor.area.mark(5), timeout=5000)
    assert "U+200B (ZERO WIDTH SPACE)" in editor.area.mark(5)
    assert painted(editor, "bad") > before + 50
    assert editor.area.text() == document.text == text
    document.set_text(TEXT, "shown")
    qtbot.waitUntil(lambda: editor.area.mark(5) == "", timeout=5000)
    assert painted(editor, "bad") == before


def test_a_line_longer_than_the_area_hides_nothing(
    qtbot: QtBot, editor: TomlEditor, document: RunDocument
) -> None:
    before = painted(editor, "bad")
    document.set_text(f"# {'a' * 500}\u2066\n{TEXT}", "long")
    assert painted(editor, "bad") > before
