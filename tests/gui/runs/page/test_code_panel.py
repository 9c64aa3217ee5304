"""A run's code: its commit, the changes since, and the difference from another run's."""

import json
import threading
from pathlib import Path

import pytest
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot
from shiboken6 import delete

from support.links.code_transfer import code_of, written
from support.values.machines import plan
from support.values.run_homes import add_run, run_id
from torchdeck.contract.layout import RunLayout
from torchdeck.launching.code.capture import capture
from torchdeck.runs.folders.git_state import GitState
from torchdeck.runs.run_list import RunList
from torchdeck.use_cases.code import Changes
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.runs.page import code_panel
from torchdeck_app.runs.page.code_panel import CodeView
from torchdeck_app.theme.theme import Theme

DIFF = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-old\n+new \x1b[31mred\n"


def with_commit(layout: RunLayout, diff: str = DIFF, untracked: tuple[str, ...] = ()) -> RunLayout:
    layout.git.write_text(json.dumps(GitState("c" * 40, "main", diff, untracked).to_json()))
    return layout


def with_copy(layout: RunLayout, home: Path, folder: Path, text: bytes) -> RunLayout:
    capture(layout, plan(code=code_of(written(folder, {"train.py": text}), home)), home)
    return layout


def view_of(qtbot: QtBot, theme: Theme, operations: Operations, layout: RunLayout) -> CodeView:
    view = CodeView(theme, operations, layout)
    qtbot.addWidget(view)
    view.set_runs(RunList(layout.root.parents[1]).look().entries)
    view.entered()
    return view


def test_commit_and_changes_are_shown_and_copied(
    qtbot: QtBot, theme: Theme, operations: Operations, tmp_path: Path
) -> None:
    many = tuple(f"new{number}.py" for number in range(8))
    view = view_of(qtbot, theme, operations, with_commit(add_run(tmp_path, 1), untracked=many))
    qtbot.waitUntil(lambda: "+new" in view.text.toPlainText())
    assert "\x1b" not in view.text.toPlainText(), "a diff is text from elsewhere"
    assert view.message == (
        "git commit cccccccc (main), 1 file changed, 8 files untracked: "
        "new0.py, new1.py, new2.py, new3.py, new4.py, new5.py and 2 other files."
    )
    view.copy_commit.click()
    assert QGuiApplication.clipboard().text() == "c" * 40
    view.copy_text.click()
    assert QGuiApplication.clipboard().text().startswith("diff --git a/x.py")
    assert not view.open_folder.isEnabled(), "there is no copy of its code here"


def test_a_run_without_a_commit_says_so(
    qtbot: QtBot, theme: Theme, operations: Operations, tmp_path: Path
) -> None:
    view = view_of(qtbot, theme, operations, add_run(tmp_path, 1))
    qtbot.waitUntil(lambda: "No git commit is on record" in view.message)
    assert not view.copy_commit.isEnabled()
    assert not view.copy_text.isEnabled()


def test_the_code_is_compared_with_that_of_another_run(
    qtbot: QtBot, theme: Theme, operations: Operations, tmp_path: Path
) -> None:
    home, folder = tmp_path / "home", tmp_path / "code"
    folder.mkdir()
    before = with_copy(add_run(home, 1), home, folder, b"a\nb\n")
    after = with_commit(with_copy(add_run(home, 2), home, folder, b"a\nc\n"))
    add_run(home, 3)
    view = view_of(qtbot, theme, operations, after)
    qtbot.waitUntil(view.open_folder.isEnabled)
    view.choice.setCurrentIndex(view.choice.findData(before.root.name))
    qtbot.waitUntil(lambda: "-b\n+c" in view.text.toPlainText())
    view.choice.setCurrentIndex(view.choice.findData(run_id(3)))
    qtbot.waitUntil(lambda: "has no copy of its code" in view.message)
    assert view.text.toPlainText() == ""
    view.choice.setCurrentIndex(view.choice.findData(code_panel.COMMIT))
    assert "+new" in view.text.toPlainText()


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_comparison_may_outlive_the_panel(
    qtbot: QtBot,
    theme: Theme,
    operations: Operations,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_closed: bool,
) -> None:
    """It is cancelled when the panel closes, and its result is dropped when the panel is gone."""
    go_on = threading.Event()

    def changes(*_: object, check: object) -> Changes:
        assert go_on.wait(20.0)
        return Changes((), is_cut=False)

    monkeypatch.setattr(code_panel, "changes", changes)
    before, after = add_run(tmp_path, 1), add_run(tmp_path, 2)
    view = CodeView(theme, operations, after)
    view.set_runs(RunList(tmp_path).look().entries)
    view.entered()
    qtbot.waitUntil(lambda: bool(view.message))
    view.choice.setCurrentIndex(view.choice.findData(before.root.name))
    (comparison,) = operations.running
    if is_closed:
        view.closing()
    assert comparison.token.wanted is is_closed
    delete(view)
    go_on.set()
    qtbot.waitUntil(lambda: not operations.running)
