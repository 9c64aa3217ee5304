"""The dialog with the files of a run's directory: browsed, fetched, cancelled."""

from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from support.values.run_homes import add_run, run_id
from torchdeck.contract.layout import RunLayout
from torchdeck.use_cases.nodes.run_files import Fetched
from torchdeck_app.bridge.logins import make_logins
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.runs.elsewhere import files_dialog as module
from torchdeck_app.runs.elsewhere.files_dialog import FilesDialog

SLOW = 20_000
"""Milliseconds for a process that reads the files."""


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    made = add_run(tmp_path / "home", 1)
    (made.root / "samples").mkdir()
    (made.root / "samples" / "a\n<b>x").write_bytes(b"x" * 100)
    return made


def opened(qtbot: QtBot, operations: Operations, layout: RunLayout) -> FilesDialog:
    dialog = FilesDialog(operations, make_logins(layout.home.root), layout, "gpt")
    qtbot.addWidget(dialog)
    dialog.show()
    qtbot.waitUntil(lambda: "files, " in dialog.told.text(), timeout=SLOW)
    return dialog


def names(dialog: FilesDialog) -> list[str]:
    return [
        item.text(0)
        for at in range(dialog.list.topLevelItemCount())
        if (item := dialog.list.topLevelItem(at))
    ]


@pytest.mark.processes
def test_files_are_browsed_and_fetched(
    qtbot: QtBot, operations: Operations, layout: RunLayout, tmp_path: Path
) -> None:
    dialog = opened(qtbot, operations, layout)
    assert dialog.node.currentText() == "This machine"
    item = dialog.list.topLevelItem(names(dialog).index("samples"))
    assert item is not None
    assert item.text(1) == "100 B"
    assert not dialog.fetch.isEnabled()
    dialog.list.expandItem(item)
    child = item.child(0)
    assert child is not None
    assert "\n" not in child.text(0)
    dialog.list.setCurrentItem(child)
    assert dialog.chosen == ("samples/a\n<b>x",)
    assert dialog.fetch.isEnabled()
    dialog.fetch_to(tmp_path / "to")
    assert not dialog.fetch.isEnabled()
    qtbot.waitUntil(lambda: dialog.told.text().startswith("1 file in "), timeout=SLOW)
    fetched = tmp_path / "to" / run_id(1) / "localhost" / "samples" / "a\n<b>x"
    assert fetched.read_bytes() == b"x" * 100
    assert not dialog.bar.isVisible()


@pytest.mark.processes
def test_a_fetch_shows_its_progress_and_can_be_cancelled(
    qtbot: QtBot,
    operations: Operations,
    layout: RunLayout,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dialog = opened(qtbot, operations, layout)

    def slow(
        _layout: object, _node: object, _paths: object, _to: object, ui: object, transfer: object
    ) -> Fetched:
        while True:
            transfer("x", 50, 100)  # type: ignore[operator]
            ui.check()  # type: ignore[attr-defined]

    monkeypatch.setattr(module, "fetch_files", slow)
    dialog.list.selectAll()
    dialog.fetch_to(tmp_path)
    qtbot.waitUntil(lambda: dialog.bar.value() == 500)
    assert dialog.told.text() == "50 B of 100 B: x"
    dialog.cancel.click()
    qtbot.waitUntil(lambda: "was cancelled" in dialog.told.text())
    assert dialog.fetch.isEnabled()


@pytest.mark.processes
def test_what_cannot_be_listed_is_said(qtbot: QtBot, operations: Operations, layout: RunLayout) -> None:
    layout.plan.write_text('{"nodes": [{"name": "gone"}]}')
    dialog = FilesDialog(operations, make_logins(layout.home.root), layout, "gpt")
    qtbot.addWidget(dialog)
    qtbot.waitUntil(lambda: "The files cannot be listed: node gone" in dialog.told.text(), timeout=SLOW)
