"""Garbage goes in the GUI thread, whatever other threads do."""

import gc
import threading
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from torchdeck_app.window import garbage
from torchdeck_app.window.garbage import GarbageCollector


@pytest.fixture
def collector(qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[GarbageCollector]:
    monkeypatch.setattr(garbage, "_LOOK", 10)
    thresholds = gc.get_threshold()
    made = GarbageCollector(qapp)
    made.start()
    yield made
    made.deleteLater()
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    gc.enable()


class Cycle(QObject):
    """Only a collector finds it."""

    gone_in: list[threading.Thread]

    def __init__(self) -> None:
        super().__init__()
        self.me = self

    def __del__(self) -> None:
        self.gone_in.append(threading.current_thread())


def test_a_cycle_is_found_in_the_gui_thread_while_another_makes_objects(
    collector: GarbageCollector, qtbot: QtBot
) -> None:
    Cycle.gone_in = []
    gc.set_threshold(100, 0, 0)
    Cycle()
    kept: list[list[int]] = []
    other = threading.Thread(target=lambda: kept.extend([] for _ in range(100_000)))
    other.start()
    other.join(20)
    assert Cycle.gone_in == []
    qtbot.waitUntil(lambda: bool(Cycle.gone_in))
    assert Cycle.gone_in == [threading.main_thread()]
