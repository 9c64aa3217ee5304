"""Lines of code, opened in the user's editor from the failure card and the logs."""

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QObject, Qt, QUrl, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from gui.runs.conftest import Opened, click, page_of
from support.values.histories import agent_started, ended, failure, finished, started
from support.values.run_homes import add_run, run_id
from torchdeck.contract.layout import RunLayout
from torchdeck.use_cases.opening.editor_choice import Editor, EditorKind
from torchdeck_app.runs.page.run_page import RunPage


class Handler(QObject):
    """Stands in for the desktop's program for URLs of VS Code."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    @Slot(QUrl)
    def take(self, url: QUrl) -> None:
        self.urls.append(url.toString(QUrl.ComponentFormattingOption.FullyEncoded))


@pytest.fixture
def handler(qtbot: QtBot) -> Any:
    made = Handler()
    QDesktopServices.setUrlHandler("vscode", made, "take")  # type: ignore[arg-type]
    yield made
    QDesktopServices.unsetUrlHandler("vscode")


@pytest.fixture
def train(tmp_path: Path) -> Path:
    file = tmp_path / "code" / "train.py"
    file.parent.mkdir()
    file.write_text("x\n")
    return file


def failed_run(home: Path, train: Path) -> RunLayout:
    traceback = f'  File "{train}", line 7, in main\n  File "{train}", line 3, in step\nKeyError: 1'
    first = failure(message="KeyError: 1", traceback=traceback)
    node = [
        agent_started(),
        started(world_size=2),
        ended(outcome="failed", first=first),
        finished("FAILED", why="rank 1 failed"),
    ]
    layout = add_run(home, 1, node, code_folder=str(train.parent))
    stderr = layout.attempt(1).rank(0).stderr
    stderr.parent.mkdir(parents=True)
    stderr.write_text(f"hello\n{train}:5: UserWarning: x\nbye\n")
    return layout


def shown(qtbot: QtBot, opened: Opened, tmp_path: Path, train: Path) -> RunPage:
    failed_run(tmp_path / "home", train)
    place = opened(tmp_path / "home")
    place.use_editor(lambda: Editor(EditorKind.VSCODE))
    page = page_of(qtbot, place, 1)
    qtbot.waitUntil(page.card.isVisible)
    return page


def test_card_and_traceback_open_the_editor(
    qtbot: QtBot, opened: Opened, tmp_path: Path, train: Path, handler: Handler
) -> None:
    page = shown(qtbot, opened, tmp_path, train)
    click(page.card.buttons["source"])
    qtbot.waitUntil(lambda: handler.urls == [f"vscode://file{train}:3:1"])
    text = page.card.traceback
    text.verticalScrollBar().setValue(0)
    at = text.cursorRect(text.cursorForPosition(text.rect().topLeft())).center()
    QTest.mouseDClick(text.viewport(), Qt.MouseButton.LeftButton, pos=at)
    qtbot.waitUntil(lambda: handler.urls[1:] == [f"vscode://file{train}:7:1"])


def test_a_line_of_the_log_opens_the_editor(
    qtbot: QtBot, opened: Opened, tmp_path: Path, train: Path, handler: Handler
) -> None:
    page = shown(qtbot, opened, tmp_path, train)
    assert run_id(1) == page.run_layout.root.name
    page.tabs.setCurrentWidget(page.logs)
    area = page.logs.area
    qtbot.waitUntil(lambda: area.accessibleDescription() == "3 lines")
    area.go_to(1)
    assert area.menu().actions()[0].text() == "&Open train.py:5 in the editor"
    QTest.keyClick(area, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: handler.urls == [f"vscode://file{train}:5:1"])
    area.go_to(0)
    assert not area.menu().actions()[0].isEnabled()
    train.unlink()
    area.go_to(1)
    QTest.keyClick(area, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: "is not a file on this machine" in page.problem.text())
