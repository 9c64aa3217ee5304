"""Poller: looking in a thread, telling the GUI thread what changed."""

import itertools
import threading

import pytest
from PySide6.QtCore import QCoreApplication
from pytestqt.qtbot import QtBot

from torchdeck_app.bridge.background_loop import Poller, to_beat


def test_only_what_differs_is_told(qtbot: QtBot) -> None:
    looks = itertools.count()
    found: list[int] = []
    poller: Poller[int] = Poller("test", lambda: next(looks) // 5, 0.001)
    poller.changed.connect(found.append)
    poller.start()
    qtbot.waitUntil(lambda: len(found) > 3)
    assert poller.stop(10)
    assert found == sorted(set(found))


def test_a_look_that_raises_is_told_and_the_next_is_made(qtbot: QtBot) -> None:
    looks = itertools.count()
    found: list[object] = []

    def look() -> int:
        if next(looks) == 0:
            raise OSError("gone")
        return 1

    poller: Poller[int] = Poller("test", look, 0.02)
    poller.changed.connect(found.append)
    poller.failed.connect(lambda error: found.append(str(error)))
    poller.start()
    qtbot.waitUntil(lambda: 1 in found)
    assert poller.stop(10)
    assert found in (["gone", 1], [1])


def test_a_slow_look_is_said_and_blocks_nothing(qtbot: QtBot) -> None:
    go = threading.Event()
    seconds: list[float] = []
    poller: Poller[int] = Poller("test", lambda: int(go.wait(20)), 0.01)
    poller.waiting.connect(seconds.append)
    poller.start()
    qtbot.waitUntil(lambda: bool(seconds))
    assert seconds[0] >= 1
    go.set()
    qtbot.waitUntil(lambda: seconds[-1] == 0)
    assert poller.stop(10)


def test_nothing_comes_after_a_stop_and_it_can_start_again(qtbot: QtBot) -> None:
    looks = itertools.count()
    found: list[int] = []
    poller: Poller[int] = Poller("test", lambda: next(looks), 0.001)
    poller.changed.connect(found.append)
    poller.start()
    qtbot.waitUntil(lambda: bool(found))
    assert poller.stop(10)
    before = list(found)
    QCoreApplication.processEvents()  # all that the thread, which has ended, had sent
    assert found == before
    poller.start()
    qtbot.waitUntil(lambda: len(found) > len(before))
    assert poller.stop(10)


def test_a_look_that_still_goes_on_is_waited_for_by_the_next_start(qtbot: QtBot) -> None:
    go, at_once, most = threading.Event(), [0], [0]

    def look() -> int:
        at_once[0] += 1
        most[0] = max(most[0], at_once[0])
        go.wait(20)
        at_once[0] -= 1
        return 1

    found: list[int] = []
    poller: Poller[int] = Poller("test", look, 0.01)
    poller.changed.connect(found.append)
    poller.start()
    qtbot.waitUntil(lambda: at_once[0] == 1)
    assert not poller.stop()
    poller.start()
    go.set()
    qtbot.waitUntil(lambda: found == [1])
    assert poller.stop(10)
    assert most == [1]


def test_a_poke_does_not_wait_for_the_interval(qtbot: QtBot) -> None:
    looks = itertools.count()
    found: list[int] = []
    poller: Poller[int] = Poller("test", lambda: next(looks), 3600)
    poller.changed.connect(found.append)
    poller.start()
    qtbot.waitUntil(lambda: found == [0])
    poller.poke()
    qtbot.waitUntil(lambda: found == [0, 1])
    assert poller.stop(10)


def test_all_that_look_as_often_look_at_the_same_moment() -> None:
    for began in (100.0, 100.3, 100.499):
        assert began + to_beat(1.0, began) == pytest.approx(101)
    for began in (100.501, 100.9):  # a look that took long is not followed by the next one at once
        assert began + to_beat(1.0, began) == pytest.approx(102)
    assert 101 + to_beat(2.0, 101) == pytest.approx(102)
