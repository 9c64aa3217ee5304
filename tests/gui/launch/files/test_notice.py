"""What is said above the document, and by which sign."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from torchdeck_app.launch.files.notice import Answer, Notice, Tone
from torchdeck_app.theme.theme import Theme


@pytest.fixture
def notice(qtbot: QtBot, theme: Theme) -> Notice:
    made = Notice(theme)
    qtbot.addWidget(made)
    return made


@pytest.mark.parametrize(
    ("tone", "sign"), [("note", "note"), ("done", "check"), ("warning", "warning"), ("error", "close")]
)
def test_only_what_was_done_has_a_check(notice: Notice, tone: Tone, sign: str) -> None:
    """That machines are only described is a note: nothing of them was looked at."""
    notice.say("This describes machines.", tone)
    assert notice.icon_name == sign
    assert (sign == "check") == (tone == "done")
    assert not notice.sign.pixmap().isNull()
    assert notice.isVisible()
    assert notice.accessibleName() == "This describes machines."


def test_a_later_sentence_takes_the_place_of_an_earlier_one_and_its_answers(notice: Notice) -> None:
    pressed: list[str] = []
    notice.say("One", "warning", (Answer("&Yes", lambda: pressed.append("yes")),), topic="a")
    QTest.mouseClick(notice.button("Yes"), Qt.MouseButton.LeftButton)
    notice.say("Two", topic="b")
    with pytest.raises(LookupError):
        notice.button("Yes")
    notice.clear("a")
    assert notice.isVisible()
    QTest.mouseClick(notice.close_button, Qt.MouseButton.LeftButton)
    assert not notice.isVisible()
    assert pressed == ["yes"]


def test_an_answer_that_goes_gives_the_focus_to_what_is_around_it(theme: Theme, qtbot: QtBot) -> None:
    """And not to the button of the window that comes next, which the next key would press."""
    place = QWidget()
    qtbot.addWidget(place)
    column = QVBoxLayout(place)
    column.addWidget(QPushButton("another"))
    notice = Notice(theme)
    column.addWidget(notice)
    place.show()
    notice.say("It was changed on disk", answers=[Answer("&Reload", notice.clear)])
    notice.button("Reload").setFocus()
    notice.button("Reload").click()
    assert notice.isHidden()
    assert place.focusWidget() is place
