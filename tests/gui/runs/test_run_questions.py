"""Questions about runs: how a script continues, and before files are lost."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from PySide6.QtWidgets import QMessageBox
from pytestqt.qtbot import QtBot

from gui.runs.conftest import Opened, page_of
from support.links.code_transfer import code_of, written
from support.values.machines import plan
from support.values.run_homes import add_live_run, add_run
from torchdeck.contract.layout import RunLayout
from torchdeck.launching.code.capture import capture
from torchdeck.trainers.resume import UnknownResumeError
from torchdeck.use_cases.resume import keep_arguments
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.bridge.run_list import RunListPoller
from torchdeck_app.runs import run_commands
from torchdeck_app.runs.run_questions import ResumeQuestion
from torchdeck_app.runs.runs_page import RunsPage
from torchdeck_app.theme.theme import Theme


def test_the_answer_is_used_for_the_resume_and_kept(
    qtbot: QtBot, theme: Theme, operations: Operations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first try fails as nothing is known; what is entered then goes to the second."""
    layout = add_live_run(tmp_path, 1)
    resumed: list[tuple[str, ...]] = []
    kept: list[tuple[str, ...]] = []

    def resume(
        run: RunLayout, _origin: str, _ui: object, arguments: tuple[str, ...], secrets: Mapping[str, str]
    ) -> None:
        assert secrets == {}
        if not arguments:
            raise UnknownResumeError(run.root.name, "train.py")
        resumed.append(tuple(arguments))

    def keep(_run: RunLayout, arguments: tuple[str, ...]) -> str:
        kept.append(tuple(arguments))
        return ""

    monkeypatch.setattr(run_commands, "resume", resume)
    monkeypatch.setattr(run_commands, "keep_arguments", keep)
    page = RunsPage(theme, operations, tmp_path, RunListPoller(tmp_path, interval=600.0))
    qtbot.addWidget(page)
    page.commands.resume(layout)
    qtbot.waitUntil(lambda: bool(page.findChildren(ResumeQuestion)))
    (question,) = page.findChildren(ResumeQuestion)
    assert not question.resume.isEnabled()
    question.arguments.setText("--from 'unclosed")
    assert not question.resume.isEnabled()
    question.arguments.setText("--from '@{checkpoint}'")
    question.resume.click()
    qtbot.waitUntil(lambda: kept == [("--from", "@{checkpoint}")])
    assert resumed == kept
    page.closing()


def test_they_are_written_into_the_run_file_that_was_started(tmp_path: Path) -> None:
    """Beside what is there; a run without a file says so."""
    layout = add_live_run(tmp_path, 1)
    source = tmp_path / "run.toml"
    source.write_text('[run]\nscript = "train.py"  # mine\n')
    assert "without a run file" in keep_arguments(layout, ["--mode=again"])
    text = layout.journal.read_text()
    layout.journal.write_text(text.replace('"kind": "recipe"', f'"kind": "script", "source": "{source}"', 1))
    assert keep_arguments(layout, ["--mode=again"]) == ""
    assert source.read_text() == '[run]\nscript = "train.py"  # mine\nresume_args = ["--mode=again"]\n'
    source.unlink()
    os.mkfifo(source)
    assert "named pipe" in keep_arguments(layout, ["--mode=again"])


def test_a_run_with_files_that_are_nowhere_else_is_deleted_after_a_question(
    qtbot: QtBot, opened: Opened, tmp_path: Path
) -> None:
    """They are named; Cancel keeps the run, and other runs of the selection are deleted at once."""
    home = tmp_path / "home"
    other, layout = add_run(home, 1), add_run(home, 2)
    work = written(tmp_path / "work", {"train.py": b""})
    capture(layout, plan(code=code_of(work, home)), home)
    written(layout.code, {"out/model.pt": b"weights"})
    place = opened(home)
    page_of(qtbot, place, 2)

    def answer(button: str) -> None:
        place.commands.delete([("mine", layout), ("other", other)])
        qtbot.waitUntil(lambda: bool(place.findChildren(QMessageBox)))
        (question,) = place.findChildren(QMessageBox)
        assert question.text() == 'Delete "mine" with the files that its program wrote?'
        assert question.informativeText().startswith(
            "1 file that the program wrote next to its code is only in"
        )
        assert "out/model.pt" in question.informativeText()
        next(each for each in question.buttons() if each.text() == button).click()
        qtbot.waitUntil(lambda: not place.findChildren(QMessageBox))

    answer("Cancel")
    qtbot.waitUntil(lambda: not other.root.exists())
    assert layout.root.exists()
    answer("Delete")
    qtbot.waitUntil(lambda: not layout.root.exists())
