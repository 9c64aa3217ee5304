"""Add to the queue from the place: the text as it is in the tab, after its check."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from support.gui.launch_place import SCRIPT, opened, write_script
from torchdeck.contract.layout import RunLayout
from torchdeck.queue.entry import Stage
from torchdeck.queue.queue_file import read_queue
from torchdeck_app.launch.launch_page import LaunchPage

SLOW = 60_000
KEYS = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier


def test_the_text_of_the_tab_is_queued_once(
    qtbot: QtBot, place: LaunchPage, tmp_path: Path, home: Path, started: list[RunLayout]
) -> None:
    opened(qtbot, place, write_script(tmp_path))
    place.document.set_value(("name",), "changed")
    with qtbot.waitSignal(place.control.queueing.added, timeout=SLOW):
        QTest.keyClick(place, Qt.Key.Key_Return, KEYS)
        place.actions_here.queue.trigger()
        place.actions_here.launch.trigger()  # not both
    (entry,) = read_queue(home).entries
    assert (entry.name, entry.stage) == ("changed", Stage.WAITING)
    assert entry.file.text == place.document.text != SCRIPT
    assert (entry.file.path, entry.file.is_file) == (str(tmp_path / "run.toml"), True)
    assert place.notice.text.text().startswith("Queued as q1: needs")
    assert place.notice.text.text().endswith("No server runs; start one on the Queue page.")
    assert place.control.launch_button.isEnabled()
    assert started == []


def test_what_could_never_run_is_refused_with_its_problems(
    qtbot: QtBot, place: LaunchPage, tmp_path: Path, home: Path
) -> None:
    opened(qtbot, place, write_script(tmp_path))
    (tmp_path / "t.py").unlink()
    place.document.set_value(("distributed", "nodes"), ["nowhere"])
    with qtbot.waitSignal(place.control.queueing.refused, timeout=SLOW):
        place.actions_here.queue.trigger()
    assert read_queue(home).entries == ()
    assert place.control.launch_button.isEnabled()
