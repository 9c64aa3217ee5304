"""The preflight board: what was found on each node, by values and by keyboard."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

from torchdeck.config.problems import Problem
from torchdeck.plan.check import Check, failed, ok, warning
from torchdeck_app.launch.check.check_rows import check_rows, grid_of
from torchdeck_app.launch.check.check_table import LOOKS, CheckTable
from torchdeck_app.launch.check.checks_panel import CheckPanel
from torchdeck_app.theme.theme import Theme

ACCESSIBLE = Qt.ItemDataRole.AccessibleTextRole
CHECKS = [
    ok("home", "localhost", "writable"),
    ok("ssh", "a", "reached in 0.1 s"),
    ok("clock", "a", "right"),
    ok("disk", "a", "100 GiB free"),
    ok("ssh", "b", "reached in 0.2 s"),
    warning("clock", "b", "3 s behind", "set it"),
    failed("devices", "b", "held by another run", "stop it"),
    failed("ssh", "c", "no one answers", "look at its sshd"),
]


@pytest.fixture
def panel(qtbot: QtBot, theme: Theme) -> CheckPanel:
    below = QWidget()
    below.resize(740, 560)
    qtbot.addWidget(below)
    made = CheckPanel(theme)
    made.lie_over(below)
    below.show()
    qtbot.waitExposed(below)
    return made


def shown(panel: CheckPanel, *checks: Check) -> CheckTable:
    panel.show_rows(check_rows(checks))
    assert panel.table is not None
    return panel.table


def test_what_is_worst_stands_in_the_upper_left() -> None:
    grid = grid_of(check_rows(CHECKS))
    assert grid is not None
    assert grid.checks == ("devices", "ssh", "clock", "disk")
    assert grid.nodes == ("b", "c", "a")
    assert grid.status("devices", "b") == "failed"
    assert grid.status("clock", "b") == "warning"
    assert grid.status("ssh", "a") == "ok"
    assert grid.status("clock", "c") is None
    assert [row.name for row in grid.others] == ["home"]


def test_every_check_is_in_it_once() -> None:
    twice = [*CHECKS, failed("ssh", "a", "no keys", "add one")]
    grid = grid_of(check_rows(twice))
    assert grid is not None
    within = [row for rows in grid.cells.values() for row in rows]
    assert sorted((*within, *grid.others)) == sorted(check_rows(twice))
    assert grid.status("ssh", "a") == "failed", "the worst of a cell is what it shows"


def test_this_machine_is_a_column_where_it_is_one_of_the_nodes() -> None:
    checks = [*CHECKS, ok("disk", "localhost", "10 GiB free")]
    grid = grid_of(check_rows(checks, is_node=True))
    assert grid is not None
    assert "localhost" in grid.nodes
    assert [row.name for row in grid.others] == ["home"], "which no node is asked for"
    alone = grid_of(check_rows(checks))
    assert alone is not None
    assert [row.name for row in alone.others] == ["home", "disk"]


def test_one_node_is_a_list_as_before(panel: CheckPanel) -> None:
    assert grid_of(check_rows(CHECKS[:4])) is None
    panel.show_rows(check_rows(CHECKS[:4]))
    assert panel.table is None
    assert not panel.detail.isVisible()


def test_the_worst_cell_says_its_reason_at_once(panel: CheckPanel) -> None:
    table = shown(panel, *CHECKS)
    assert table.isVisible()
    assert panel.detail.title.text() == "✕ devices on b: blocks the launch"
    what, fix = panel.detail.text.text().splitlines()
    assert what == "held by another run"
    assert fix.startswith("→ wait in the queue until it is free")
    assert panel.detail.button.text() == "&Wait in the queue"


def test_a_click_and_the_keys_say_the_reason_of_another(qtbot: QtBot, panel: CheckPanel) -> None:
    table = shown(panel, *CHECKS)
    cell = table.visualRect(table.cells.index(1, 1)).center()
    qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=cell)
    assert panel.detail.title.text() == "✕ ssh on c: blocks the launch"
    assert panel.detail.text.text() == "no one answers\n→ look at its sshd"
    assert not panel.detail.button.isVisible()
    qtbot.keyClick(table, Qt.Key.Key_Down)
    assert panel.detail.title.text() == "clock on c: not checked"
    qtbot.keyClick(table, Qt.Key.Key_Left)
    assert panel.detail.title.text() == "⚠ clock on b: warning"


def test_a_state_has_a_sign_and_words_besides_its_colour(panel: CheckPanel) -> None:
    table = shown(panel, *CHECKS)
    signs = {
        (row, column): str(table.cells.index(row, column).data()) for row in range(4) for column in range(3)
    }
    assert (signs[0, 0], signs[2, 0], signs[1, 2], signs[2, 1]) == ("✕", "⚠", "✓", "·")
    assert len({look.sign for look in LOOKS.values()}) == len(LOOKS)
    said = table.cells.index(2, 0).data(ACCESSIBLE)
    assert said == "clock on b: warning: 3 s behind\n→ set it"


def test_a_button_of_a_cell_does_what_it_says(qtbot: QtBot, panel: CheckPanel) -> None:
    shown(panel, *CHECKS)
    with qtbot.waitSignal(panel.remedy_wanted) as wanted:
        qtbot.mouseClick(panel.detail.button, Qt.MouseButton.LeftButton)
    assert wanted.args is not None
    assert (wanted.args[0].name, wanted.args[0].node) == ("devices", "b")


def test_what_is_about_no_node_has_its_own_place(qtbot: QtBot, panel: CheckPanel) -> None:
    panel.show_rows(check_rows(CHECKS, (Problem("training.lr", "", None, "is wrong", "0.1"),)))
    assert panel.table is not None
    inside = panel.table.parentWidget()
    assert inside is not None

    def top(text: str) -> int:
        return next(found for found in inside.findChildren(QLabel) if found.text() == text).y()

    assert top("training.lr") < panel.table.y() < top("Run file and this machine") < top("home")
    assert panel.button(0).text() == "&Go to the key"


def test_many_nodes_are_reached_sideways_and_nothing_grows(panel: CheckPanel) -> None:
    checks = [ok(name, f"node{at:02d}", "fine") for at in range(40) for name in ("ssh", "clock", "disk")]
    table = shown(panel, *checks)
    below = panel.parentWidget()
    assert below is not None
    assert panel.width() == below.width()
    assert panel.height() < below.height()
    assert table.horizontalScrollBar().maximum() > 0
    table.setCurrentIndex(table.cells.index(2, 39))
    assert table.viewport().rect().contains(table.visualRect(table.currentIndex()).center())


def test_other_colours_leave_the_chosen_cell(panel: CheckPanel, theme: Theme) -> None:
    table = shown(panel, *CHECKS)
    table.setCurrentIndex(table.cells.index(2, 0))
    theme.set_mode("dark")
    assert panel.detail.title.text() == "⚠ clock on b: warning"
