"""How long it takes from typing in a run file of 1,024 ranks until the window has painted its preview."""

import gc
import os
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEvent, QEventLoop, QObject, QTimer, Signal
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPlainTextEdit, QWidget

from benchmarks.rows import Row
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.document.run_document import RunDocument
from torchdeck_app.launch.launch_page import LaunchPage
from torchdeck_app.launch.preview.preview_state import PreviewState
from torchdeck_app.launch.text.editor import TomlEditor
from torchdeck_app.theme.theme import Theme
from torchdeck_app.window.garbage import GarbageCollector

NODES = 128
EDITS = 20
REST = 0.3
"""Seconds between two edits."""
GOAL = 200.0
"""Milliseconds between two checks."""
LONGEST = "[run]\nargs = [\n" + '"--some-option=of-a-script",\n' * 30_000 + "]\n"
LIMIT = 120.0
"""Seconds that the first preview, which traces the model, may take."""


def run() -> list[Row]:
    """An edit that changes what every rank needs, with the form and the placement in sight."""
    app = QApplication.instance() or QApplication([])
    assert isinstance(app, QApplication)
    operations = Operations()
    with tempfile.TemporaryDirectory() as folder:
        theme = Theme(app, "light")
        place = LaunchPage(theme, operations, Path(folder), drafts=Path(folder))
        place.resize(1280, 760)
        place.show()
        place.new_from_preset("cluster")
        try:
            return [*_Typing(place).rows(), *_longest_text(theme)]
        finally:
            place.closing()
            place.close()
            operations.close(10_000)


def _longest_text(theme: Theme) -> list[Row]:
    """A key in a text of the greatest size that is read, until it is in the document."""
    with tempfile.TemporaryDirectory() as folder:
        document = RunDocument(Path(folder))
        editor, plain = TomlEditor(theme, document), QPlainTextEdit()
        document.load(LONGEST, None)
        plain.setPlainText(LONGEST)
        try:
            ours, peer = (_key(area) for area in (editor.area, plain))
        finally:
            document.close(5.0)
            editor.close()
            plain.close()
    name = "key press in 30,000 lines: the GUI thread's"
    return [
        Row(
            name,
            ours,
            "ms",
            peer,
            "QPlainTextEdit",
            ours / peer,
            wanted=GOAL,
            lower_is_better=True,
            goal_is_absolute=True,
        )
    ]


def _key(area: QPlainTextEdit) -> float:
    """Median milliseconds of this thread for a key press near the beginning."""
    area.resize(600, 400)
    area.show()
    QTest.qWaitForWindowExposed(area)
    found = []
    for _ in range(EDITS):
        begun = time.thread_time()
        QTest.keyClicks(area, "x")
        QApplication.processEvents()
        found.append(1000 * (time.thread_time() - begun))
    return statistics.median(found)


class _Paints(QObject):
    """Tells when a widget or a part of it is painted."""

    painted = Signal()

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        for part in (widget, *widget.findChildren(QWidget)):
            part.installEventFilter(self)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if event.type() == QEvent.Type.Paint:
            self.painted.emit()
        return False


class _Typing:
    def __init__(self, place: LaunchPage) -> None:
        self._place = place
        self._paints = _Paints(place.pane.strip)
        self._waited_for = -1
        """Version of the document whose preview is waited for."""
        self._is_shown = False
        self._loop = QEventLoop()
        place.service.updated.connect(self._show)
        self._paints.painted.connect(self._paint)
        _until(lambda: place.has_document, LIMIT)
        preset = (files("torchdeck_resources") / "presets" / "cluster.toml").read_text(encoding="utf-8")
        self._text = preset.replace("gpu[00-15]", f"gpu[0000-{NODES - 1:04d}]")

    def rows(self) -> list[Row]:
        self._type(1)
        state = self._place.service
        _until(lambda: state.state.preview is not None and state.state.preview.memory is not None, LIMIT)
        collector = GarbageCollector(self._place)
        collector.start()
        waits, processor, gui = [], [], []
        for number in range(2, EDITS + 2):
            _rest()
            wait, all_threads, own = self._type(number)
            waits.append(wait)
            processor.append(all_threads)
            gui.append(own)
        gc.enable()
        ranks = f"{8 * NODES:,} ranks"
        return [
            Row(
                f"{ranks}: typed to painted",
                statistics.median(waits),
                "ms",
                wanted=GOAL,
                lower_is_better=True,
                goal_is_absolute=True,
            ),
            Row(
                f"{ranks}: the slowest of {EDITS}",
                max(waits),
                "ms",
                wanted=GOAL,
                lower_is_better=True,
                goal_is_absolute=True,
            ),
            Row(f"{ranks}: processor time of all threads", statistics.median(processor), "ms"),
            Row(f"{ranks}: the same, of the one that took most", max(processor), "ms"),
            Row(f"{ranks}: of it the GUI thread's", statistics.median(gui), "ms"),
        ]

    def _show(self, state: PreviewState) -> None:
        """The pane was connected before, and has taken it over by now."""
        self._is_shown = state.version == self._waited_for

    def _paint(self) -> None:
        if self._is_shown:
            self._loop.quit()

    def _type(self, number: int) -> tuple[float, float, float]:
        """Milliseconds until it is painted; the processor's meanwhile; of them the GUI thread's."""
        text, found = re.subn(r"(?m)^accumulation = \d+", f"accumulation = {number}", self._text)
        assert found, "the preset no longer says an accumulation"
        begun, processor, gui = time.perf_counter(), time.process_time(), time.thread_time()
        self._is_shown = False
        self._place.document.set_text(text)
        self._waited_for = self._place.document.version
        limit = QTimer(singleShot=True, interval=round(1000 * LIMIT))
        limit.timeout.connect(self._loop.quit)
        limit.start()
        self._loop.exec()
        if not self._is_shown:
            raise TimeoutError(f"no preview was painted within {LIMIT:g} s")
        return (
            1000 * (time.perf_counter() - begun),
            1000 * (time.process_time() - processor),
            1000 * (time.thread_time() - gui),
        )


def _rest() -> None:
    loop = QEventLoop()
    QTimer.singleShot(round(1000 * REST), loop, loop.quit)
    loop.exec()


def _until(holds: Callable[[], bool], seconds: float) -> None:
    limit = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > limit:
            raise TimeoutError(f"the window did not show it within {seconds:g} s")
        QTest.qWait(50)
