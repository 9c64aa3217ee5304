"""The plots of the window: GUI thread an update, ten million points opened and panned, a burst followed."""

import contextlib
import gc
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np
import psutil
from PySide6.QtCore import QEvent, QPointF, QTimer
from PySide6.QtWidgets import QApplication

from benchmarks.rows import Row
from support.values.metrics import rank_folder, segment_path, write_columns
from torchdeck.contract.layout import RunLayout
from torchdeck_app.runs.plots.plot_grid import PlotGrid
from torchdeck_app.theme.theme import Theme

RANKS, POINTS, PLOTS = 64, 100_000, 16
ROWS = 10_000_000
BURST = 50_000
"""Rows a second."""
BURST_SECONDS = 4.0
DAY_ROWS = 24 * 3600 * 10
"""A simulated day of ten steps a second."""
FIRST = 1.7e9
BY_HAND = 15.0
"""Milliseconds an update took when the plots were painted without pyqtgraph (decision 0035)."""


def run() -> list[Row]:
    """Rows for the goals of the plots."""
    app = QApplication.instance() or QApplication([])
    assert isinstance(app, QApplication)
    theme = Theme(app, "light")
    gc.freeze()  # modules are no garbage: to walk over them stops every thread
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        return [
            *_dashboard(app, theme, root / "dashboard"),
            *_ten_million(app, theme, root / "long"),
            *_burst(app, theme, root / "burst"),
            *_day(app, theme, root / "day"),
        ]


_IDLE = """
import sys, threading, time
over, longest, last = [], 0.0, time.perf_counter()
threading.Thread(target=lambda: over.append(sys.stdin.read()), daemon=True).start()
while not over:
    time.sleep(0.01)
    now = time.perf_counter()
    longest, last = max(longest, now - last - 0.01), now
print(1000 * longest)
"""


class IdleProcess:
    """A process that only sleeps for 10 ms at a time: what the machine itself held it up for, meanwhile."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _IDLE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def longest(self) -> float:
        """Milliseconds; it ends."""
        return float(self._process.communicate(timeout=30)[0])


class Heart:
    """A timer of 10 ms: how long the GUI thread was busy at a time, and the painting of the plots."""

    def __init__(self) -> None:
        self.gaps: list[float] = []
        self._last = time.perf_counter()
        self._timer = QTimer()
        self._timer.setInterval(10)
        self._timer.timeout.connect(self._beat)
        self._timer.start()

    def _beat(self) -> None:
        now = time.perf_counter()
        self.gaps.append(1000 * (now - self._last) - 10)
        self._last = now

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Forget what was before."""
        self._last = time.perf_counter()
        self.gaps = [0.0]
        yield

    @property
    def longest(self) -> float:
        """Milliseconds beyond the timer's own ten."""
        return max(self.gaps)


def _block(name: str, longest: float, held_up: float) -> Row:
    """The longest block; where the machine is busy, an idle process is held up as well."""
    return Row(name, longest, "ms", held_up, "an idle process meanwhile", held_up / longest, 50.0, True, True)


def _until(app: QApplication, condition: Callable[[], bool], seconds: float = 60.0) -> float:
    """Seconds until it held; the event loop runs as a program's does."""
    begun = time.perf_counter()
    while not condition():
        app.processEvents()
        time.sleep(0.001)
        assert time.perf_counter() - begun < seconds, "what was waited for did not come"
    return time.perf_counter() - begun


def _for(app: QApplication, seconds: float) -> None:
    end = time.perf_counter() + seconds
    _until(app, lambda: time.perf_counter() >= end)


def _board(theme: Theme, run_dir: Path, width: int, height: int) -> PlotGrid:
    board = PlotGrid(theme, RunLayout(run_dir))
    board.resize(width, height)
    board.show()
    board.entered()
    return board


def _end(app: QApplication, board: PlotGrid) -> None:
    board.closing()
    board.close()
    board.deleteLater()
    _for(app, 0.05)


def _dashboard(app: QApplication, theme: Theme, folder: Path) -> list[Row]:
    random = np.random.default_rng(0)
    steps = np.arange(POINTS)
    names = ["loss", *(f"m{number:02}" for number in range(PLOTS - 1))]
    for rank in range(RANKS):
        values = {name: random.normal(size=POINTS) for name in names}
        write_columns(rank_folder(folder, rank) / "log-1.metrics", values, steps=steps, times=FIRST + steps)
    board = _board(theme, folder, 1600, 1200)
    opened = _until(app, lambda: board.answer is not None and len(board.answer.plots) == PLOTS, 120)
    _for(app, 0.5)
    spent, heart, idle = [], Heart(), IdleProcess()
    files = [rank_folder(folder, rank) / "log-1.metrics" for rank in range(RANKS)]
    for number in range(8):
        before = board.answer
        for path in files:
            _append(path, POINTS + 20 * number, 20, PLOTS)
        with heart.listening():
            _until(app, lambda before=before: board.answer is not before)  # type: ignore[misc]  # bound now
            spent.append((_repaint(board), heart.longest))
            _for(app, 0.1)
            spent[-1] = (spent[-1][0], max(spent[-1][1], heart.longest))
    held_up = idle.longest()
    crosshair, pan = _crosshair(board), _pan(board)
    x, y = _drawn(board)
    _end(app, board)
    ours = statistics.median(took for took, _ in spent)
    peer = _pyqtgraph(app, x, y)
    whole = _pyqtgraph(app, steps.astype(float), random.normal(size=POINTS))
    name = f"{PLOTS} plots, {RANKS} ranks, {POINTS:,} points: GUI thread an update"
    return [
        Row(name, ours, "ms", peer, "PlotDataItem, the same points", peer / ours, 20.0, True, True),
        Row(name, ours, "ms", whole, "PlotDataItem, 1 rank, setDownsampling(auto)", whole / ours),
        Row(name, ours, "ms", BY_HAND, "painted by hand until decision 0077", BY_HAND / ours),
        Row("  crosshair moved in all of them", crosshair, "ms", None, "", None, 8.0, True),
        Row("  all of them panned, a frame", pan, "ms", None, "", None, 40.0, True),
        _block("  longest block of an update", max(gap for _, gap in spent), held_up),
        Row("  all 16 plots of 102 million points there", opened, "s"),
    ]


def _repaint(board: PlotGrid) -> float:
    """Milliseconds of processor to give all plots their data and paint them, in the GUI thread."""
    answer = board.answer
    assert answer is not None
    begun = time.thread_time()
    board.sheet.show_plots(answer.metrics, answer.plots)
    board.sheet.draw_all()
    board.sheet.viewport().repaint()
    return 1000 * (time.thread_time() - begun)


def _crosshair(board: PlotGrid) -> float:
    """Milliseconds of processor to move the crosshair of all plots and paint it."""
    plot, found = board.sheet.plot("own:m00"), []
    for place in range(40, 200, 4):
        at = plot.vb.mapToScene(QPointF(place, 40.0))
        begun = time.thread_time()
        board.sheet.scene().sigMouseMoved.emit(at)
        _paint(board)
        found.append(1000 * (time.thread_time() - begun))
    board.sheet.set_cursor(None)
    return statistics.median(found)


def _pan(board: PlotGrid) -> float:
    """Milliseconds of processor to pan all plots by a few pixels and paint them, without reading again."""
    found = []
    for low in range(1000, 41_000, 1000):
        begun = time.thread_time()
        board.zoom_to((float(low), low + 50_000.0))
        _paint(board)
        found.append(1000 * (time.thread_time() - begun))
    board.zoom_to(None)
    return statistics.median(found)


def _paint(board: PlotGrid) -> None:
    """Paint what has changed, as the event loop does."""
    QApplication.sendPostedEvents(board.sheet.scene())
    QApplication.sendPostedEvents(board.sheet.viewport())
    QApplication.sendPostedEvents(board.sheet.window(), QEvent.Type.UpdateRequest)


def _drawn(board: PlotGrid) -> tuple[np.ndarray, np.ndarray]:
    """What one plot of the board draws, as points."""
    answer = board.answer
    assert answer is not None
    band = answer.plots["loss"].bands[0]
    return np.repeat(band.x, 3), np.stack((band.low, band.median, band.high)).T.reshape(-1)


def _pyqtgraph(app: QApplication, x: np.ndarray, y: np.ndarray) -> float:
    """Milliseconds of processor for a curve in each of sixteen of pyqtgraph's plots, downsampled by it."""
    import pyqtgraph
    from PySide6.QtWidgets import QGridLayout, QWidget

    window = QWidget()
    grid, curves, plots = QGridLayout(window), [], []
    for number in range(PLOTS):
        plot = pyqtgraph.PlotWidget(background="w")
        plot.getPlotItem().setDownsampling(auto=True, mode="peak")
        plot.getPlotItem().setClipToView(True)
        plot.disableAutoRange()
        plot.setXRange(float(x[0]), float(x[-1]))
        plot.setYRange(float(y.min()), float(y.max()))
        curves.append(plot.plot(pen=pyqtgraph.mkPen("#0072b2", width=1)))
        grid.addWidget(plot, number // 4, number % 4)
        plots.append(plot)
    window.resize(1600, 1200)
    window.show()
    _for(app, 0.1)
    found = []
    for _ in range(5):
        begun = time.thread_time()
        for curve, plot in zip(curves, plots, strict=True):
            curve.setData(x, y)
            plot.viewport().repaint()
        found.append(1000 * (time.thread_time() - begun))
    window.close()
    window.deleteLater()
    _for(app, 0.05)
    return statistics.median(found)


def _ten_million(app: QApplication, theme: Theme, folder: Path) -> list[Row]:
    steps = np.arange(ROWS)
    values = {"loss": np.random.default_rng(1).normal(size=ROWS)}
    write_columns(segment_path(folder), values, steps=steps, times=FIRST + steps)
    del values
    begun = time.perf_counter()
    board = _board(theme, folder, 1280, 720)
    _until(app, lambda: board.answer is not None and bool(board.answer.plots))
    board.sheet.viewport().repaint()
    opened = time.perf_counter() - begun
    frames, shown = [], 0
    seen = board.answer
    begun = time.perf_counter()
    for number in range(120):
        frame = time.perf_counter()
        low = 1e6 + number * 2e4
        board.zoom_to((low, low + 3e6))
        board.sheet.viewport().repaint()
        while time.perf_counter() - frame < 0.012:
            app.processEvents()
            time.sleep(0.001)
        if board.answer is not seen:
            seen, shown = board.answer, shown + 1
        frames.append(time.perf_counter() - frame)
    seconds = time.perf_counter() - begun
    _end(app, board)
    return [
        Row("10 million points: open", opened, "s", None, "", None, 0.3, True),
        Row("  pan", len(frames) / seconds, "frames/s", None, "", None, 30.0),
        Row("  slowest frame of a pan", 1000 * max(frames), "ms", None, "", None, 50.0, True),
        Row("  detail read again while panning", shown / seconds, "times/s"),
    ]


def _append(path: Path, first: int, count: int, values: int) -> None:
    row = struct.Struct(f"<qd{values}d")
    rows = b"".join(row.pack(step, FIRST + step, *([0.5] * values)) for step in range(first, first + count))
    with path.open("ab") as file:
        file.write(rows)


def _burst(app: QApplication, theme: Theme, folder: Path) -> list[Row]:
    write_columns(segment_path(folder), {"loss": np.zeros(1)}, steps=np.zeros(1), times=np.full(1, FIRST))
    board = _board(theme, folder, 1280, 720)
    _until(app, lambda: board.answer is not None and bool(board.answer.plots))
    heart, stop, idle = Heart(), threading.Event(), IdleProcess()
    written = [1]
    begun = time.perf_counter()

    def write() -> None:
        while not stop.wait(0.02):
            due = round(BURST * (time.perf_counter() - begun)) + 1 - written[0]  # also what a late turn left
            _append(segment_path(folder), written[0], due, 1)
            written[0] += due

    writer = threading.Thread(target=write)
    writer.start()
    with heart.listening():
        _for(app, BURST_SECONDS)
    rate = written[0] / (time.perf_counter() - begun)
    held_up = idle.longest()
    stop.set()
    writer.join()
    lag = _until(app, lambda: board.answer is not None and board.answer.moments.x[-1] >= written[0] - 1)
    longest = heart.longest
    _end(app, board)
    return [
        Row(f"burst for {BURST_SECONDS:g} s", rate, "rows/s", None, "", None, 0.99 * BURST),
        _block("  longest block meanwhile", longest, held_up),
        Row("  last row is shown after", lag, "s", None, "", None, 1.0, True),
    ]


def _day(app: QApplication, theme: Theme, folder: Path) -> list[Row]:
    names = ["grad_norm", "loss", "lr", "step_time", "tokens", "tokens_per_s"]
    path = segment_path(folder)
    values = {name: np.zeros(100) for name in names}
    write_columns(path, values, steps=np.arange(100), times=FIRST + np.arange(100))
    board = _board(theme, folder, 1280, 720)
    _until(app, lambda: board.answer is not None and bool(board.answer.plots))
    process = psutil.Process()
    sizes = []
    parts = 40
    for part in range(parts):
        first = 100 + part * DAY_ROWS // parts
        rows = np.empty((DAY_ROWS // parts, 2 + len(names)))
        steps = np.arange(first, first + len(rows))
        rows.view(np.int64)[:, 0] = steps
        rows[:, 1] = FIRST + steps / 10
        rows[:, 2:] = np.random.default_rng(part).normal(size=(len(rows), len(names)))
        with path.open("ab") as file:
            rows.tofile(file)
        last = int(steps[-1])
        _until(app, lambda last=last: board.answer is not None and board.answer.moments.x[-1] >= last)  # type: ignore[misc]  # bound now
        sizes.append(process.memory_info().rss / 2**20)
    _end(app, board)
    grown = statistics.median(sizes[-5:]) - statistics.median(sizes[5:10])
    return [Row("a day of 10 steps/s: growth of memory", grown, "MiB", None, "", None, 16.0, True)]
