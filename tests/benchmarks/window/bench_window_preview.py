"""How long it takes from an edit of a run file to its preview in the window, once its model is known."""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtWidgets import QApplication

from benchmarks.rows import Row
from torchdeck.config.loader import LoadedConfig, load_config
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.preview.preview_pane import PreviewPane
from torchdeck_app.launch.preview.preview_service import PreviewService
from torchdeck_app.launch.preview.preview_state import PreviewState
from torchdeck_app.theme.theme import Theme

EDITS = 20
GOAL = 200.0
"""Milliseconds between two checks."""
PAINT_GOAL = 8.0
LIMIT = 120_000
"""Milliseconds that the first preview, which traces the model, may take."""


@dataclass(frozen=True)
class _Checked:
    version: int
    loaded: LoadedConfig
    problems: tuple[()] = ()


def run() -> list[Row]:
    """An edit of the learning rate, in the quickstart and in clusters of 64, 1,024 and 8,192 ranks."""
    app = QApplication.instance() or QApplication([])
    assert isinstance(app, QApplication)
    operations = Operations()
    theme = Theme(app, "light")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, text in _texts():
            rows += _Case(theme, operations, Path(folder), name, text).rows()
    operations.close(10_000)
    return rows


def _texts() -> list[tuple[str, str]]:
    presets = files("torchdeck_resources") / "presets"
    cluster = (presets / "cluster.toml").read_text(encoding="utf-8")
    return [
        ("quickstart", (presets / "quickstart.toml").read_text(encoding="utf-8")),
        *(
            (f"{8 * nodes:,} ranks", cluster.replace("gpu[00-15]", f"gpu[0000-{nodes - 1:04d}]"))
            for nodes in (8, 128, 1024)
        ),
    ]


class _Case:
    """One run file, edited again and again with the pane in sight."""

    def __init__(self, theme: Theme, operations: Operations, folder: Path, name: str, text: str) -> None:
        self._goal = None if name.startswith("8,192") else GOAL  # more than is promised
        self._name, self._text, self._folder = name, text, folder
        self._service = PreviewService(operations, folder / "home")
        self._pane = PreviewPane(theme, self._service)
        self._pane.resize(760, 640)
        self._pane.show()
        self._gui = 0.0

    def rows(self) -> list[Row]:
        self._ask(0, lambda state: state.preview is not None and state.preview.memory is not None)
        waits, shows = [], []
        for number in range(1, EDITS + 1):
            waits.append(self._ask(number, lambda state, number=number: state.version == number))  # type: ignore[misc]
            shows.append(self._gui)
        board = self._pane.placement.board.viewport()
        paints = [_milliseconds(board.repaint) for _ in range(EDITS)]
        self._service.close()
        self._pane.close()
        return [
            _limited(f"{self._name}: edit to preview", statistics.median(waits), self._goal),
            Row(f"{self._name}: the slowest of {EDITS}", max(waits), "ms"),
            Row(f"{self._name}: of it in the GUI thread", statistics.median(shows), "ms"),
            _limited(f"{self._name}: painting the board", statistics.median(paints), PAINT_GOAL),
        ]

    def _ask(self, version: int, holds: Callable[[PreviewState], bool]) -> float:
        """Milliseconds until the pane shows what an edit leads to; reading it is the document's part."""
        path = self._folder / f"{self._name.replace(' ', '-')}.toml"
        path.write_text(self._text.replace("lr = ", f"lr = 0.{version:03d}1 # "), encoding="utf-8")
        loaded = load_config(path)
        loop = QEventLoop()
        arrived: list[float] = []

        def updated(state: PreviewState) -> None:
            # the pane was connected before, and has shown it by now
            if holds(state):
                arrived.append(time.perf_counter())
                loop.quit()

        before = self._pane.show_state
        connection = self._service.updated.connect(updated)
        QTimer.singleShot(LIMIT, loop, loop.quit)
        began = time.perf_counter()
        self._service.request(_Checked(version, loaded))
        loop.exec()
        self._service.updated.disconnect(connection)
        if not arrived:
            raise TimeoutError(f"{self._name}: no preview within {LIMIT / 1000:g} s")
        self._gui = _milliseconds(lambda: self._show_again(before))
        return 1000 * (arrived[0] - began)

    def _show_again(self, show: Callable[[PreviewState], None]) -> None:
        """What the pane does with a new preview."""
        from dataclasses import replace

        state = self._service.state
        assert state.preview is not None
        show(replace(state, preview=replace(state.preview)))


def _limited(name: str, milliseconds: float, goal: float | None) -> Row:
    return Row(name, milliseconds, "ms", wanted=goal, lower_is_better=True, goal_is_absolute=True)


def _milliseconds(action: Callable[[], None]) -> float:
    began = time.perf_counter()
    action()
    return 1000 * (time.perf_counter() - began)
