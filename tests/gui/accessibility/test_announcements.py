"""What a screen reader is told without being asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QAccessibleEvent
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from support.values.histories import ended, finished
from support.values.made_runs import line
from support.values.run_homes import add_live_run, run_id
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.bridge.run_list import RunListPoller
from torchdeck_app.launch.files.notice import Notice as PageNotice
from torchdeck_app.runs.runs_page import RunsPage
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.announcements import News
from torchdeck_app.widgets.help import ErrorLine
from torchdeck_app.widgets.state_badge import HUNG, STOPPED
from torchdeck_app.window.notices import Notice, Notices

Said = list[tuple[str, bool]]
"""Each sentence, and whether it interrupts others."""


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Said:
    """What was said so far; Qt passes it on only while a screen reader runs."""
    found: Said = []

    def take(event: QAccessibleEvent) -> None:
        if isinstance(event, QAccessibleAnnouncementEvent):
            urgent = event.politeness() is QAccessible.AnnouncementPoliteness.Assertive
            found.append((event.message(), urgent))

    monkeypatch.setattr(QAccessible, "updateAccessibility", take)
    return found


def test_notices_and_errors_are_said_and_bad_ones_interrupt(said: Said, qtbot: QtBot, theme: Theme) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    notices = Notices(theme, window)
    notices.show_notice(Notice("a run stopped", STOPPED))
    notices.show_notice(Notice("a run hangs", HUNG))
    notices.show_notice(Notice("a run hangs", HUNG))
    PageNotice(theme, window).say("This cannot be saved.", "error")
    error = ErrorLine(window)
    for _ in range(2):
        error.say("The filter is wrong.")
    assert said == [
        ("a run stopped", False),
        ("a run hangs", True),
        ("This cannot be saved.", True),
        ("The filter is wrong.", True),
    ]


def test_news_are_changes_of_one_subject(said: Said, qtbot: QtBot) -> None:
    widget = QWidget()
    qtbot.addWidget(widget)
    news = News(widget)
    for subject, text in (("a", "running"), ("a", "running"), ("a", "failed"), ("b", "running"), ("b", "")):
        news.tell(subject, text)
    assert said == [("failed", False)], "what is shown first is not news"


def test_the_end_of_the_run_in_sight_is_said(
    said: Said, qtbot: QtBot, theme: Theme, operations: Operations, tmp_path: Path
) -> None:
    layout = add_live_run(tmp_path, 1)
    poller = RunListPoller(tmp_path, interval=0.05)
    page = RunsPage(theme, operations, tmp_path, poller)
    qtbot.addWidget(page)
    page.show()
    page.entered()
    poller.start()
    try:
        page.open_run(run_id(1))
        qtbot.waitUntil(lambda: page.page is not None and page.page.header.state_word == "running")
        with layout.node("localhost").journal.open("a") as file:
            file.write(line(ended()) + line(finished()))
        qtbot.waitUntil(lambda: ("gpt: succeeded", False) in said)
    finally:
        page.closing()
        assert poller.stop(10)
