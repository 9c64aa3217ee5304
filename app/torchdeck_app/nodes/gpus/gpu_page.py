"""Page of one GPU: its histories, why its clock is lower, who holds it, and its processes."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from torchdeck.nodes.gpus.gpu_now import GpuNow
from torchdeck.nodes.gpus.gpu_words import all_holder_words, holder_words
from torchdeck.nodes.gpus.history import GpuHistory, reason_shares, span_of
from torchdeck.quantities import duration, size
from torchdeck.use_cases.nodes.gpus import EndRequest, why_not_endable
from torchdeck_app.nodes.gpus.gpu_looks import look_of, model_of, title_of
from torchdeck_app.nodes.gpus.history_chart import HistoryChart, ReasonChart, TimeChart
from torchdeck_app.nodes.gpus.process_table import GpuProcessTable
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.inputs import set_enabled, set_visible
from torchdeck_app.widgets.labels import ElidedLabel, plain_tip
from torchdeck_app.widgets.panel import GRID, Panel, label
from torchdeck_app.widgets.state_badge import StateBadge

COLUMNS = 3
_CHOOSE = "Select a process of the table"
_MIG = "Divided into MIG instances: the driver does not report the use of the whole GPU"


class GpuPage(QWidget):
    """Everything known of one GPU."""

    closed = Signal()
    run_asked = Signal(str)
    end_asked = Signal(object)
    """Emitted with an EndRequest, to be confirmed."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._gpu: GpuNow | None = None
        self._run_id = ""
        self._charts: dict[str, TimeChart] = {
            "use": HistoryChart(theme, "Use", _percent, step=100.0),
            "memory": HistoryChart(theme, "Memory", self._memory, step=100.0, series=1),
            "power": HistoryChart(theme, "Power", lambda value: f"{value:.0f} W", step=100.0, series=5),
            "temperature": HistoryChart(
                theme, "Temperature", lambda value: f"{value:.0f} °C", step=100.0, series=3
            ),
            "clock": HistoryChart(theme, "Clock", _mhz, step=500.0, series=2),
            "memory_clock": HistoryChart(theme, "Memory clock", _mhz, step=500.0, series=4),
            "reasons": ReasonChart(theme),
        }
        for chart in self._charts.values():
            chart.cursor_moved.connect(self._show_cursor)
        inside = QWidget()
        column = QVBoxLayout(inside)
        column.setContentsMargins(2 * GRID, GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(GRID)
        column.addLayout(self._head(theme))
        column.addLayout(self._lines())
        column.addWidget(self._histories())
        column.addWidget(self._processes(), 1)
        area = QScrollArea()
        area.setAccessibleName("GPU")
        area.setProperty("role", "scrolled")
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setWidgetResizable(True)
        area.setWidget(inside)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.addWidget(area)

    @property
    def key(self) -> tuple[str, str] | None:
        """Return the key of the GPU shown."""
        return None if self._gpu is None else self._gpu.key

    def show_gpu(self, gpu: GpuNow, history: GpuHistory, now: float) -> None:
        """Show the GPU; `now` in seconds since 1970."""
        self._gpu = gpu
        self._title.setText(title_of(gpu))
        self._title.setToolTip(plain_tip(title_of(gpu)))
        self._badge.set_look(look_of(gpu))
        self._machine.setText("  ·  ".join(filter(None, (model_of(gpu), gpu.device.uuid))))
        self._machine.setToolTip(plain_tip(_MIG if gpu.mig else self._machine.text()))
        self._show_holder(gpu, now)
        self._show_charts(gpu, history)
        processes = gpu.processes or ()
        self.table.show_processes(processes)
        self.table.setVisible(bool(processes))
        self._none.setVisible(not processes)
        self._none.setText(_no_processes(gpu))
        self._choose()

    def _show_holder(self, gpu: GpuNow, now: float) -> None:
        holders = all_holder_words(gpu, now)
        text = f"Held by {holders}" if holders else "Held by no one"
        if not gpu.is_connected:
            text = f"Its node is not connected. Last known: {text[:1].lower()}{text[1:]}"
        self._holder.setText(text)
        self._holder.setToolTip(plain_tip(text))
        self._run_id = next((each.run_id for each in gpu.holders if each.run_id), "")
        set_visible(self.run_button, self.back, on=bool(self._run_id))

    def _show_charts(self, gpu: GpuNow, history: GpuHistory) -> None:
        tracks = {name: history.track(name) for name in self._charts}
        any_track = tracks["use"]
        length = span_of(any_track)
        end = any_track.times[-1] if any_track.times else gpu.time or 0.0
        for name, chart in self._charts.items():
            chart.show_track(tracks[name], (end - length, end))
        power = self._charts["power"]
        if isinstance(power, HistoryChart):
            power.set_limit(gpu.power_limit)
        shares = reason_shares(tracks["reasons"], end - length)
        words = ", ".join(f"{reason} {share:.0f} %" for reason, share in shares.items())
        span = f"last {duration(length).removesuffix(' 0 s')}"
        self._span.setText(f"{span.capitalize()}. Reasons for a lower clock: {words or 'none'}")
        self._span.setToolTip(plain_tip(self._span.text()))

    def _show_cursor(self, at: float | None) -> None:
        for chart in self._charts.values():
            chart.show_cursor(at)

    def _choose(self) -> None:
        chosen = self.table.chosen
        why = _CHOOSE if chosen is None else ""
        if chosen is not None and not chosen.run_id:
            why = why_not_endable(chosen)
        if self._gpu is not None and not self._gpu.is_connected:
            why = "The node is not connected"
        set_enabled(self.end_button, self.table, on=not why)
        self.end_button.setText("Stop its run …" if chosen is not None and chosen.run_id else "End process …")
        self.end_button.setToolTip(plain_tip(why or "Ask, then end exactly this process"))
        self._why.setText("" if chosen is None else why)

    def _memory(self, share: float) -> str:
        total = 0 if self._gpu is None else self._gpu.device.memory_bytes
        return f"{size(total * share / 100.0)} of {size(total)}"

    def _end(self) -> None:
        chosen = self.table.chosen
        if chosen is not None and self._gpu is not None:
            self.end_asked.emit(EndRequest(self._gpu.node, chosen))

    def _head(self, theme: Theme) -> QHBoxLayout:
        self.back = QPushButton("← All GPUs")
        self.back.setToolTip("Back to the grid of all GPUs (Esc)")
        self.back.setShortcut(Qt.Key.Key_Escape)
        self.back.clicked.connect(self.closed)
        self._title = ElidedLabel()
        self._title.setFont(font(Type.HEADING))
        self._badge = StateBadge(theme)
        self.run_button = QPushButton("Open run")
        self.run_button.setToolTip("Open the run that holds this GPU, where it can be stopped")
        self.run_button.clicked.connect(lambda: self.run_asked.emit(self._run_id))
        row = QHBoxLayout()
        row.setSpacing(2 * GRID)
        row.addWidget(self.back)
        row.addWidget(self._title, 1)
        row.addWidget(self._badge)
        row.addWidget(self.run_button)
        return row

    def _lines(self) -> QVBoxLayout:
        self._machine, self._holder = ElidedLabel(), ElidedLabel()
        self._machine.setProperty("role", "secondary")
        column = QVBoxLayout()
        column.setSpacing(4)
        column.addWidget(self._machine)
        column.addWidget(self._holder)
        return column

    def _histories(self) -> Panel:
        panel = Panel()
        panel.setAccessibleName("Histories")
        grid = QGridLayout()
        grid.setHorizontalSpacing(3 * GRID)
        grid.setVerticalSpacing(GRID)
        *values, reasons = self._charts.values()
        for at, chart in enumerate(values):
            grid.addWidget(chart, at // COLUMNS, at % COLUMNS)
        for at in range(COLUMNS):
            grid.setColumnStretch(at, 1)
        grid.addWidget(reasons, len(values) // COLUMNS, 0, 1, COLUMNS)
        self._span = ElidedLabel()
        self._span.setFont(font(Type.SMALL))
        self._span.setProperty("role", "secondary")
        inside = QWidget()
        grid.setContentsMargins(0, 0, 0, 0)
        inside.setLayout(grid)
        panel.add(inside)
        panel.add(self._span)
        return panel

    def _processes(self) -> Panel:
        panel = Panel("Processes")
        self.table = GpuProcessTable()
        self.table.process_chosen.connect(self._choose)
        self.end_button = QPushButton("End process …")
        self.end_button.clicked.connect(self._end)
        panel.header.addWidget(self.end_button)
        self._none = label("", role="secondary", wrap=True)
        self._why = label("", role="secondary", wrap=True)
        panel.add(self._none)
        panel.add(self.table)
        panel.add(self._why)
        panel.add(QWidget(), 1)
        return panel


def _percent(value: float) -> str:
    return f"{value:.0f} %"


def _mhz(value: float) -> str:
    return f"{value:,.0f} MHz"


def _no_processes(gpu: GpuNow) -> str:
    if gpu.processes is None:
        return "The processes are not known: nvidia-smi did not list them."
    if gpu.holders or holder_words(gpu):
        return "The driver lists no compute process. Processes in containers may not be visible."
    return "No process uses this GPU."
