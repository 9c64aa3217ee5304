"""Plots of formulas: written, refused, kept, removed, exported."""

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from support.values.metrics import write_rows
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.plots.catalogue import FORMULA, formula_metrics
from torchdeck.runs.plots.rows_csv import write_csv
from torchdeck_app.runs.plots.choices import MOST_FORMULAS, Choices
from torchdeck_app.runs.plots.formula_dialog import FormulaDialog
from torchdeck_app.runs.plots.plot_grid import PlotGrid
from torchdeck_app.theme.theme import Theme


def test_a_formula_is_written_plotted_and_removed(qtbot: QtBot, theme: Theme, tmp_path: Path) -> None:
    write_rows(tmp_path, [(step, {"loss": float(step)}) for step in range(1, 20)])
    board = PlotGrid(theme, RunLayout(tmp_path))
    qtbot.addWidget(board)
    board.resize(1000, 700)
    board.show()
    board.entered()
    qtbot.waitUntil(lambda: board.answer is not None and bool(board.answer.plots))
    board.toolbar.formulas.trigger()
    (dialog,) = board.findChildren(FormulaDialog)
    assert not dialog.add.isEnabled()
    dialog.text.setText("loss +")
    assert "not understood" in dialog.problem.text()
    assert not dialog.add.isEnabled()
    dialog.text.setText("loss * 2")
    QTest.keyClick(dialog.text, Qt.Key.Key_Return)
    key = f"{FORMULA}loss * 2"
    qtbot.waitUntil(lambda: board.answer is not None and key in board.answer.plots)
    assert board.answer is not None
    assert board.answer.plots[key].curves[0].latest == 38.0
    board.sheet.draw_all()
    assert Choices.from_json(board.save_state()).formulas == ("loss * 2",)
    dialog.list.setCurrentRow(0)
    dialog.remove.click()
    qtbot.waitUntil(
        lambda: board.answer is not None and key not in [each.key for each in board.answer.metrics]
    )
    board.closing()


def test_invalid_and_too_many_formulas_are_not_restored(qtbot: QtBot) -> None:
    many = [f"loss + {number}" for number in range(MOST_FORMULAS + 5)]
    found = Choices.from_json({"formulas": ["open('x')", 3, *many]}).formulas
    assert found == tuple(many[:MOST_FORMULAS])
    dialog = FormulaDialog((), Choices(formulas=found))
    qtbot.addWidget(dialog)
    dialog.text.setText("loss")
    assert not dialog.add.isEnabled()


def test_the_rows_of_a_formula_are_exported(tmp_path: Path) -> None:
    write_rows(tmp_path, [(step, {"loss": float(step)}) for step in range(1, 4)])
    (metric,) = formula_metrics(["loss * 2"])
    rows = write_csv(tmp_path / "x.csv", RunLayout(tmp_path), metric, lambda _: None, lambda: None)
    assert rows == 3
    assert (tmp_path / "x.csv").read_text().splitlines()[1].startswith("loss * 2,0,1,1,")
