"""Errors of the window itself: shown, counted, copied; the window continues."""

import sys
import threading
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel, QPlainTextEdit, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from torchdeck_app.theme.theme import Theme
from torchdeck_app.window.error_report import ErrorDialog, ErrorReports


@pytest.fixture
def window(theme: Theme, qtbot: QtBot) -> QWidget:
    made = QWidget()
    qtbot.addWidget(made)
    made.show()
    return made


@pytest.fixture
def reports(window: QWidget) -> Iterator[ErrorReports]:
    hooks = sys.excepthook, threading.excepthook
    made = ErrorReports(window)
    made.install()
    yield made
    sys.excepthook, threading.excepthook = hooks


def dialogs(window: QWidget) -> list[ErrorDialog]:
    return [dialog for dialog in window.findChildren(ErrorDialog) if dialog.isVisible()]


def report(window: QWidget) -> str:
    return dialogs(window)[0].findChildren(QPlainTextEdit)[0].toPlainText()


def fail() -> None:
    raise ValueError("<b>no such rank</b>")


def test_an_error_in_a_slot_is_shown_with_its_traceback_and_the_window_goes_on(
    window: QWidget, reports: ErrorReports, qtbot: QtBot, capsys: pytest.CaptureFixture[str]
) -> None:
    QTimer.singleShot(0, fail)
    qtbot.waitUntil(lambda: len(dialogs(window)) == 1)
    assert "in fail" in report(window)
    assert any("ValueError: <b>no such rank</b>" in label.text() for label in window.findChildren(QLabel))
    assert "ValueError: <b>no such rank</b>" in capsys.readouterr().err
    assert window.isVisible()
    assert not dialogs(window)[0].isModal()


def test_the_same_error_again_is_counted(
    window: QWidget, reports: ErrorReports, qtbot: QtBot, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        QTimer.singleShot(0, fail)
    qtbot.waitUntil(lambda: len(dialogs(window)) == 1 and "(3 times)" in report(window))
    assert report(window).count("Traceback") == 1


def test_an_error_of_a_thread_is_shown(
    window: QWidget, reports: ErrorReports, qtbot: QtBot, capsys: pytest.CaptureFixture[str]
) -> None:
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join(10)
    qtbot.waitUntil(lambda: len(dialogs(window)) == 1)


def test_the_report_can_be_copied(
    window: QWidget, reports: ErrorReports, qtbot: QtBot, capsys: pytest.CaptureFixture[str]
) -> None:
    QTimer.singleShot(0, fail)
    qtbot.waitUntil(lambda: len(dialogs(window)) == 1)
    text = report(window)
    next(
        button for button in dialogs(window)[0].findChildren(QPushButton) if button.text() == "&Copy"
    ).click()
    assert QGuiApplication.clipboard().text() == text


@pytest.fixture
def now(reports: ErrorReports, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock's time, to be set."""
    time = [100.0]
    monkeypatch.setattr(reports, "_clock", lambda: time[0])
    return time


def test_once_closed_an_error_is_shown_again(
    window: QWidget, now: list[float], qtbot: QtBot, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        QTimer.singleShot(0, fail)
        qtbot.waitUntil(lambda: len(dialogs(window)) == 1)
        dialogs(window)[0].reject()
        now[0] += 6
    assert dialogs(window) == []


def test_the_report_of_an_error_that_goes_on_stays_closed(
    window: QWidget, reports: ErrorReports, now: list[float], qtbot: QtBot, capsys: pytest.CaptureFixture[str]
) -> None:
    """A look that fails twice a second would open it before anything else can be pressed."""
    reports._show("one", "one")
    dialogs(window)[0].reject()
    for _ in range(4):
        now[0] += 3
        reports._show("one", "one")
        assert dialogs(window) == []
    reports._show("another", "another")
    assert report(window) == "another"
