"""One question, whose newest answer alone matters."""

import threading

from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot
from shiboken6 import delete

from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.preview.preview_tab import Latest


def test_of_many_questions_the_newest_is_answered(qtbot: QtBot, operations: Operations) -> None:
    latest: Latest[int] = Latest(operations, "counting")
    answers: list[int] = []
    latest.answered.connect(answers.append)
    gate, asked = threading.Event(), []

    def count(number: int) -> int:
        asked.append(number)
        assert gate.wait(10)
        return number

    for number in range(5):
        latest.ask(lambda number=number: count(number))  # type: ignore[misc]  # its default is a number
    gate.set()
    qtbot.waitUntil(lambda: bool(answers))
    assert answers == [4]
    assert asked == [0, 4]


def test_what_is_forgotten_is_not_answered(qtbot: QtBot, operations: Operations) -> None:
    latest: Latest[int] = Latest(operations, "counting")
    answers: list[int] = []
    latest.answered.connect(answers.append)
    gate = threading.Event()
    latest.ask(lambda: int(gate.wait(10)))
    latest.forget()
    gate.set()
    qtbot.waitUntil(lambda: operations.running == ())
    assert answers == []
    latest.ask(lambda: 7)
    qtbot.waitUntil(lambda: answers == [7])


def test_a_failure_is_told(qtbot: QtBot, operations: Operations) -> None:
    latest: Latest[float] = Latest(operations, "dividing")
    with qtbot.waitSignal(latest.failed) as caught:
        latest.ask(lambda: 1 / 0)
    assert isinstance(caught.args[0], ZeroDivisionError)


def test_a_wait_is_told_once_it_is_one(qtbot: QtBot, operations: Operations) -> None:
    latest: Latest[int] = Latest(operations, "counting")
    gate = threading.Event()
    with qtbot.waitSignal(latest.waiting):
        latest.ask(lambda: int(gate.wait(10)))
    with qtbot.waitSignal(latest.settled):
        gate.set()


def test_an_answer_for_a_closed_tab_is_dropped(qtbot: QtBot, operations: Operations) -> None:
    tab = QWidget()
    latest: Latest[int] = Latest(operations, "counting", tab)
    gate = threading.Event()
    latest.ask(lambda: int(gate.wait(10)))
    delete(tab)
    gate.set()
    qtbot.waitUntil(lambda: operations.running == ())  # qtbot fails on an error in a slot
