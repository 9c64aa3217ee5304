"""The list of problems: what it counts, shows and leads to."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from support.values.previews import memory, preview, with_memory
from torchdeck.config.problems import Problem
from torchdeck_app.launch.document.checked_text import CheckedDocument, CheckRequest, check_document
from torchdeck_app.launch.problem_list import ProblemList, ProblemRow, headline, misfit_rows, problem_rows
from torchdeck_app.launch.text.editor import marks_of
from torchdeck_app.theme.theme import Theme

TEXT = '[run]\nrecipe = "byte-gpt"\n[training]\nsteps = 0\n[checkpoint]\nevry = 2\n'


def checked(text: str, folder: Path) -> CheckedDocument:
    return check_document(CheckRequest(1, text, None, folder))


def test_rows_of_a_document(tmp_path: Path) -> None:
    rows = problem_rows(checked(TEXT, tmp_path))
    assert [(row.path, row.line, row.file) for row in rows] == [
        ("training.steps", 4, ""),
        ("checkpoint.evry", 6, ""),
    ]
    assert headline(rows) == "2 problems: training.steps"
    assert headline(rows[1:]) == "1 problem: checkpoint.evry"
    assert headline(()) == "No problems"
    assert problem_rows(None) == ()


def test_the_button_of_the_list_solves_the_current_problem(
    qtbot: QtBot, theme: Theme, tmp_path: Path
) -> None:
    """Or the first one; also of a key that has no field, as it is unknown."""
    shown = ProblemList(theme)
    qtbot.addWidget(shown)
    shown.show_rows(problem_rows(checked(TEXT, tmp_path)))
    assert shown.fix.text() == "Set steps = 1"
    shown.list.setCurrentRow(1)
    assert shown.fix.text() == "Rename to every"
    with qtbot.waitSignal(shown.remedy_asked) as asked:
        shown.fix.click()
    assert asked.args is not None
    assert asked.args[0].apply(TEXT) == TEXT.replace("evry", "every")
    shown.show_rows(())
    assert shown.fix.isHidden()


def test_problems_of_the_plan_come_where_the_document_has_none(tmp_path: Path) -> None:
    planned = (Problem("distributed.nproc", "", None, "too many", "fewer"),) * 2
    right = checked(TEXT.replace("= 0", "= 5").replace("evry", "every"), tmp_path)
    assert [row.path for row in problem_rows(right, planned)] == ["distributed.nproc"]
    assert len(problem_rows(checked(TEXT, tmp_path), planned)) == 2


def test_a_run_that_does_not_fit_is_a_problem() -> None:
    """`No problems` beside a preview that says so would be believed."""
    (row,) = misfit_rows(with_memory(preview(1, 2), memory(0, 1, peak=90, verdict="does not fit")))
    assert row.wrong == "does not fit into memory: 90.0 GiB of 80.0 GiB per rank"
    assert misfit_rows(with_memory(preview(1, 2), memory(0, 1))) == misfit_rows(preview(1, 2)) == ()
    assert misfit_rows(None) == ()


def test_what_is_wrong_in_another_file_is_marked_at_extends(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text("[training]\nsteps = 0\n")
    found = checked('extends = "base.toml"\n[run]\nrecipe = "byte-gpt"\n', tmp_path)
    (row,) = problem_rows(found)
    assert row.line is None
    assert "base.toml" in row.file
    assert list(marks_of(found)) == [1]
    assert "base.toml" in marks_of(found)[1]


def test_no_toml_is_a_problem_with_a_line(tmp_path: Path) -> None:
    (row,) = problem_rows(checked("[run]\nrecipe = \n", tmp_path))
    assert row.line == 2
    assert headline((row,)) == "1 problem"


@pytest.mark.parametrize("how", ["click", "enter"])
def test_a_row_leads_there(qtbot: QtBot, theme: Theme, how: str) -> None:
    rows = (
        ProblemRow("a.b", "wrong " * 40, "right", 3, ""),
        ProblemRow("c.d", "<b>no markup</b>", "right", None, "base.toml"),
    )
    shown = ProblemList(theme)
    qtbot.addWidget(shown)
    shown.resize(320, 240)
    shown.show()
    shown.show_rows(rows)
    assert shown.header.text() == "✕ 2 problems: a.b"
    heights = [shown.list.visualItemRect(shown.list.item(row)).height() for row in range(2)]
    assert heights[0] > heights[1], "a long sentence has the lines it needs"
    place = shown.list.visualItemRect(shown.list.item(1)).center()
    with qtbot.waitSignal(shown.chosen) as chosen:
        if how == "click":
            QTest.mouseClick(shown.list.viewport(), Qt.MouseButton.LeftButton, pos=place)
        else:
            shown.list.setFocus()
            shown.list.setCurrentRow(1)
            QTest.keyClick(shown.list, Qt.Key.Key_Return)
    assert chosen.args == [rows[1]]


def test_the_current_row_stays_while_others_come(qtbot: QtBot, theme: Theme) -> None:
    one, other = ProblemRow("a", "w", "r", 1, ""), ProblemRow("b", "w", "r", 2, "")
    shown = ProblemList(theme)
    qtbot.addWidget(shown)
    shown.show_rows((other,))
    shown.list.setCurrentRow(0)
    shown.show_rows((one, other))
    assert shown.list.currentRow() == 1
    shown.show_rows(())
    assert shown.header.text() == "✓ No problems"
    assert shown.list.isHidden()
