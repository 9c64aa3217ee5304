"""Commands to read, to copy and to export."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from support.values.previews import preview
from torchdeck.plan.export.sbatch_script import export_sbatch
from torchdeck.plan.export.shell_script import export_sh
from torchdeck.runs.folders.run_directory import slug
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.preview.command_text import command_line
from torchdeck_app.launch.preview.commands_tab import CommandsView
from torchdeck_app.theme.theme import Theme


@pytest.fixture
def view(qtbot: QtBot, theme: Theme, operations: Operations) -> CommandsView:
    made = CommandsView(theme, operations)
    qtbot.addWidget(made)
    made.show()
    return made


def test_each_node_has_its_command(view: CommandsView) -> None:
    view.show_preview(preview(3, 2))
    assert "--node-rank 0" in view.text.toPlainText()
    view.nodes.setCurrentText("n0002")
    assert "--node-rank 2" in view.text.toPlainText()
    view.show_preview(preview(3, 1))
    assert view.nodes.currentText() == "n0002"
    assert "--nproc-per-node 1" in view.text.toPlainText()
    view.show_preview(preview(1, 1))
    assert view.nodes.currentText() == "n0000"
    assert not view.nodes.isEnabled()
    view.show_preview(None)
    assert not view.text.isVisible()


def test_a_command_is_copied(qtbot: QtBot, view: CommandsView) -> None:
    made = preview(2, 2)
    view.show_preview(made)
    view.nodes.setCurrentIndex(1)
    qtbot.mouseClick(view.copy, Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text() == command_line(made.plan, made.plan.nodes[1])
    assert view.told.text() == "copied"


def test_a_script_is_written_where_the_dialog_says(qtbot: QtBot, view: CommandsView, tmp_path: Path) -> None:
    made = preview(2, 2)
    first, second = made.plan.nodes
    first = dataclasses.replace(first, env={**first.env, "HF_TOKEN": "abc"})
    made = dataclasses.replace(made, plan=dataclasses.replace(made.plan, nodes=(first, second)))
    view.show_preview(made)
    dialog = view.save_script()
    dialog.fileSelected.emit(str(tmp_path / "start.sh"))
    dialog.reject()
    qtbot.waitUntil(lambda: "written" in view.told.text(), timeout=20_000)
    path = tmp_path / "start.sh"
    assert path.read_text() == export_sh(made.plan, made.plan.nodes[0])
    assert os.access(path, os.X_OK)
    assert view.told.text().endswith("; the values of HF_TOKEN are in it")


def test_scripts_of_all_nodes_are_written_into_a_folder(
    qtbot: QtBot, view: CommandsView, tmp_path: Path
) -> None:
    view.show_preview(preview(3, 1))
    dialog = view.save_all()
    dialog.fileSelected.emit(str(tmp_path))
    dialog.reject()
    qtbot.waitUntil(lambda: "written" in view.told.text(), timeout=20_000)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["n0000.sh", "n0001.sh", "n0002.sh"]


def test_one_script_for_slurm_starts_all_nodes(qtbot: QtBot, view: CommandsView, tmp_path: Path) -> None:
    made = preview(3, 2)
    view.show_preview(made)
    menu = view.export.menu()
    assert menu is not None
    assert "Script for S&lurm's sbatch …" in [action.text() for action in menu.actions()]
    dialog = view.save_job()
    assert dialog.selectedFiles()[0].endswith(f"{slug(made.plan.name)}.sbatch")
    dialog.fileSelected.emit(str(tmp_path / "job.sbatch"))
    dialog.reject()
    qtbot.waitUntil(lambda: "written" in view.told.text(), timeout=20_000)
    text = (tmp_path / "job.sbatch").read_text()
    assert text == export_sbatch(made.plan)
    assert "#SBATCH --nodes=3" in text


def test_a_script_for_slurm_that_cannot_be_written_is_said(
    qtbot: QtBot, view: CommandsView, tmp_path: Path
) -> None:
    view.show_preview(preview(2, 1))
    dialog = view.save_job()
    dialog.fileSelected.emit(str(tmp_path / "missing" / "job.sbatch"))
    dialog.reject()
    qtbot.waitUntil(lambda: "not written" in view.told.text(), timeout=20_000)


def test_what_cannot_be_written_is_said(qtbot: QtBot, view: CommandsView, tmp_path: Path) -> None:
    view.show_preview(preview(1, 1))
    dialog = view.save_script()
    dialog.fileSelected.emit(str(tmp_path / "missing" / "start.sh"))
    dialog.reject()
    qtbot.waitUntil(lambda: "not written" in view.told.text(), timeout=20_000)
    assert view.told.text().endswith("start.sh was not written: No such file or directory")
