"""A prompt, and the answers of a run's checkpoints, written by real processes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from gui.runs.conftest import Opened
from support.training.text_run import text_run
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.follower import read_run
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.runs.page.try_answer import NONE
from torchdeck_app.runs.page.try_panel import TryView
from torchdeck_app.theme.theme import Theme

LONG = 120_000
"""Milliseconds for processes that import torch on a busy machine."""
Shown = Callable[[RunLayout], TryView]


@pytest.fixture
def shown(qtbot: QtBot, theme: Theme, operations: Operations) -> Iterator[Shown]:
    made: list[TryView] = []

    def show(layout: RunLayout) -> TryView:
        view = TryView(theme, operations, layout)
        made.append(view)
        qtbot.addWidget(view)
        view.show_view(read_run(layout))
        view.resize(900, 400)
        view.show()
        view.entered()
        return view

    yield show
    for view in made:
        view.closing()


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return text_run(tmp_path, 10, 20)


def press(view: TryView, which: str = "start") -> None:
    button = view.start if which == "start" else view.cancel
    assert button.isEnabled()
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)


def offered(view: TryView) -> list[list[str]]:
    choices = (view.first.choice, view.second.choice)
    return [[box.itemText(row) for row in range(box.count())] for box in choices]


@pytest.mark.processes
def test_two_checkpoints_answer_side_by_side(qtbot: QtBot, shown: Shown, layout: RunLayout) -> None:
    """Each with its own weights; the second one only if it is chosen, and equal seeds repeat an answer."""
    view = shown(layout)
    steps = ["Step 20 (step_00000020)", "Step 10 (step_00000010)"]
    qtbot.waitUntil(lambda: offered(view) == [steps, [NONE, *steps]])
    assert not view.start.isEnabled()
    assert "the prompt is empty" in view.start.toolTip()
    view.prompt.setPlainText("to be")
    view.seed.setValue(3)
    view.length.setValue(30)
    press(view)
    qtbot.waitUntil(lambda: view.first.said.text().startswith("30 bytes in "), timeout=LONG)
    alone = view.first.text.toPlainText()
    assert alone
    assert (view.second.text.toPlainText(), view.second.said.text()) == ("", "")
    view.second.choice.setCurrentIndex(2)
    press(view)
    assert not view.start.isEnabled()
    texts = (view.first, view.second)
    qtbot.waitUntil(lambda: all(one.said.text().startswith("30 bytes") for one in texts), timeout=LONG)
    assert view.first.text.toPlainText() == alone
    assert view.second.text.toPlainText() not in ("", alone)
    assert view.start.isEnabled()


@pytest.mark.processes
def test_an_answer_is_cancelled_and_what_there_is_stays(
    qtbot: QtBot, shown: Shown, layout: RunLayout
) -> None:
    view = shown(layout)
    qtbot.waitUntil(lambda: view.first.checkpoint is not None)
    view.prompt.setPlainText("to be, or not to be, that is the question")
    view.length.setValue(100_000)
    QTest.keyClick(view.prompt, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: bool(view.first.text.toPlainText()), timeout=LONG)
    press(view, "cancel")
    qtbot.waitUntil(lambda: view.first.said.text() == "Cancelled", timeout=LONG)
    assert view.first.text.toPlainText()
    assert view.start.isEnabled()
    assert not view.cancel.isEnabled()


@pytest.mark.processes
def test_a_damaged_checkpoint_says_why(qtbot: QtBot, shown: Shown, layout: RunLayout) -> None:
    """In the column of that answer, with a page that helps."""
    shard = next((layout.checkpoints / "step_00000020").glob("*.distcp"))
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    view = shown(layout)
    qtbot.waitUntil(lambda: view.first.checkpoint is not None)
    view.prompt.setPlainText("a")
    press(view)
    qtbot.waitUntil(lambda: "cannot be read" in view.first.said.text(), timeout=LONG)
    assert view.first.text.toPlainText() == ""


def test_what_is_missing_is_said(qtbot: QtBot, shown: Shown, tmp_path: Path) -> None:
    """A run without checkpoints waits for one; a model of pictures writes no text."""
    view = shown(text_run(tmp_path / "none"))
    qtbot.waitUntil(lambda: "saved a checkpoint" in view.empty._sentence.text())
    pictures = shown(text_run(tmp_path / "digits", recipe="digits"))
    qtbot.waitUntil(lambda: 'is of recipe "digits"' in pictures.empty._sentence.text())


def test_the_prompt_is_restored_with_the_page(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    """As part of the page's state, by a tab of its own."""
    layout = text_run(tmp_path)
    place = opened(tmp_path)
    place.open_run(layout.root.name)
    qtbot.waitUntil(lambda: place.page is not None and place.page.header.state_word != "")
    page = place.page
    assert page is not None
    page.try_out.prompt.setPlainText("once upon a time")
    page.tabs.setCurrentWidget(page.try_out)
    state = page.save_state()
    page.try_out.prompt.clear()
    page.tabs.setCurrentIndex(0)
    page.restore_state(state)
    assert page.try_out.prompt.toPlainText() == "once upon a time"
    assert page.tabs.currentWidget() is page.try_out
