"""A run's configuration: as it was, and as a difference."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from support.values.run_homes import RUN_FILE, add_run, run_id
from torchdeck.runs.run_list import RunList
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.runs.comparison import configuration_rows
from torchdeck_app.runs.page.configuration_panel import DEFAULTS, ConfigurationView, GridTable
from torchdeck_app.runs.run_configuration import clone_text, read_configuration
from torchdeck_app.theme.theme import Theme


def test_the_line_of_the_keyboard_is_around_the_whole_row(qtbot: QtBot, theme: Theme) -> None:
    """Also where several rows are selected: it was around a cell of it."""
    grid = GridTable("Values")
    qtbot.addWidget(grid)
    grid.set_rows(("", "one", "other"), [(f"row {row}", "1", "2") for row in range(5)])
    grid.resize(600, 300)
    grid.show()
    grid.activateWindow()
    qtbot.waitUntil(grid.isActiveWindow)
    grid.setFocus()
    grid.selectRow(1)
    QTest.keyClick(grid, Qt.Key.Key_Down, Qt.KeyboardModifier.ShiftModifier)
    accent, top = theme.colour("accent"), grid.rowViewportPosition(2)

    def line(y: int) -> list[bool]:
        picture = grid.viewport().grab().toImage()
        return [picture.pixelColor(x, y) == accent for x in range(picture.width())]

    assert all(line(top))
    assert all(line(top + grid.rowHeight(2) - 1))
    assert sum(line(top + grid.rowHeight(2) // 2)) == 2, "its two ends, and nothing between cells"
    grid.clearFocus()
    assert not any(line(top))


def test_only_what_differs_from_the_defaults_is_named(tmp_path: Path) -> None:
    found = read_configuration(add_run(tmp_path, 1))
    assert found.problem == ""
    changed = {each.name: each.after for each in found.defaults}
    assert changed["training.steps"] == 100
    assert "training.accumulation" not in changed
    assert found.text == RUN_FILE


def test_what_was_said_on_top_is_in_it(tmp_path: Path) -> None:
    layout = add_run(tmp_path, 1, overrides=["training.steps=7", "nonsense"])
    assert "steps = 7" in read_configuration(layout).text


def test_a_clone_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    layout = add_run(tmp_path, 1, source="/home/ada/run.toml")
    text, name = clone_text(layout, Path("/x/step_00000010"))
    assert 'resume = "/x/step_00000010"' in text
    assert text.startswith("# mine")
    assert name == layout.root.name


def test_a_clone_has_a_name_though_its_run_was_in_no_file(tmp_path: Path) -> None:
    """Without one there would be no way back to it from the presets."""
    layout = add_run(tmp_path, 1, source="")
    layout.config.write_text('name = "quickstart"\n[run]\nrecipe = "byte-gpt"\n')
    assert clone_text(layout)[1] == "quickstart"


def test_paths_of_a_clone_lead_where_they_led(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "base.toml").write_text("[training]\nsteps = 3\n")
    layout = add_run(tmp_path, 1, source=str(folder / "run.toml"))
    layout.config.write_text(
        'extends = "base.toml"\n[run]\nrecipe = "mine.py"\n[checkpoint]\ndirectory = "/abs"\n'
    )
    assert clone_text(layout)[0] == (
        f'extends = "{folder}/base.toml"\n[run]\nrecipe = "{folder}/mine.py"\n'
        '[checkpoint]\ndirectory = "/abs"\n'
    )


def test_a_file_that_is_not_understood_today_is_shown_all_the_same(tmp_path: Path) -> None:
    layout = add_run(tmp_path, 1)
    layout.config.write_text('extends = "gone.toml"\n[training]\nsteps = 3\n')
    found = read_configuration(layout)
    assert found.problem
    assert found.table["training"] == {"steps": 3}


def test_the_view_shows_the_file_and_its_difference_to_another_run(
    qtbot: QtBot, theme: Theme, operations: Operations, tmp_path: Path
) -> None:
    layout, other = add_run(tmp_path, 1), add_run(tmp_path, 2)
    other.config.write_text(RUN_FILE.replace("3e-4", "0.5"))
    view = ConfigurationView(theme, operations, layout)
    qtbot.addWidget(view)
    view.set_runs(RunList(tmp_path).look().entries)
    view.entered()
    qtbot.waitUntil(lambda: view.text.toPlainText() == RUN_FILE)
    view.choice.setCurrentIndex(view.choice.findData(run_id(2)))
    qtbot.waitUntil(lambda: view.grid.texts() == [("training.lr", "0.5", "0.0003")])
    view.choice.setCurrentIndex(view.choice.findData(DEFAULTS))
    qtbot.waitUntil(lambda: "training.steps" in [row[0] for row in view.grid.texts()])


def test_a_run_file_that_is_gone_is_said(
    qtbot: QtBot, theme: Theme, operations: Operations, tmp_path: Path
) -> None:
    layout = add_run(tmp_path, 1)
    layout.config.unlink()
    view = ConfigurationView(theme, operations, layout)
    qtbot.addWidget(view)
    view.entered()
    qtbot.waitUntil(lambda: "cannot be read" in view.message)


@pytest.mark.parametrize("every", [False, True])
def test_configurations_side_by_side(every: bool) -> None:
    tables: list[dict[str, object]] = [{"a": {"x": 1, "y": 2}}, {"a": {"x": 1.0, "y": 2}}, {"b": True}]
    rows = configuration_rows(tables, every=every)
    assert rows[0] == ("a.x", "1", "1.0", "–")
    assert [row[0] for row in rows] == ["a.x", "a.y", "b"]
    assert configuration_rows([{"a": 1}, {"a": 1}], every=every) == ([("a", "1", "1")] if every else [])
