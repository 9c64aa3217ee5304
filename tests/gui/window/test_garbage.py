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
    gc.enable()


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Generations that are collected, all of which are due; nothing is really."""
    found: list[int] = []
    monkeypatch.setattr(gc, "get_count", lambda: (1000, 1000, 1000))
    monkeypatch.setattr(gc, "collect", found.append)
    return found


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


def test_a_cycle_from_before_the_start_is_found(qapp: QApplication, request: pytest.FixtureRequest) -> None:
    Cycle.gone_in = []
    Cycle()
    request.getfixturevalue("collector")
    gc.collect()
    assert Cycle.gone_in == [threading.main_thread()]


def test_full_collections_are_five_minutes_apart(qapp: QApplication, collected: list[int]) -> None:
    now = [0.0]
    collector = GarbageCollector(qapp, clock=lambda: now[0])
    for now[0] in (0.0, 299.0, 301.0, 302.0):
        collector.look()
    assert collected == [1, 1, 2, 1]
