"""Card of this machine: its facts, load, devices and busiest processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPointF,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QPainter, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QGridLayout, QHeaderView, QSizePolicy, QTableView, QWidget

from torchdeck.contract.inventory import InterpreterFacts
from torchdeck.nodes.activity import Activity, ProcessActivity
from torchdeck.nodes.this_machine import SoftwareFacts
from torchdeck.quantities import size
from torchdeck.shown_text import shown
from torchdeck_app.nodes.device_row import DeviceRow
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.chart import Chart, UsageChart
from torchdeck_app.widgets.labels import ElidedLabel, plain_tip
from torchdeck_app.widgets.panel import GRID, Panel, label

_WIDTHS = {1: 76, 2: 92, 3: 72, 4: 96}
"""Widths of the process columns in pixels; name and run share the rest."""


class MachineCard(Panel):
    """One machine."""

    run_asked = Signal(str)
    """Emitted with the id of a run to open."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__("This machine", parent)
        self._theme = theme
        self._host = label("", role="secondary")
        self.header.addWidget(self._host)
        self._software = SoftwareRow()
        self.add(self._software)
        self._wrong = label("", role="error", wrap=True)
        self._wrong.hide()
        self.add(self._wrong)
        self._problem = label("", role="error", wrap=True)
        self._problem.hide()
        self.add(self._problem)
        self._charts = {
            name: UsageChart(theme, name, highest=100.0 if name in ("CPU", "Memory") else None)
            for name in ("CPU", "Memory", "Received", "Sent")
        }
        self.add(ChartGrid(tuple(self._charts.values())))
        self.cores = CoreBars(theme)
        self.add(self.cores)
        self._disk = label("", role="secondary")
        self.add(self._disk)
        self._devices_title = label("Devices", Type.HEADING)
        self.add(self._devices_title)
        self._no_devices = label(
            "No NVIDIA GPU was found: runs train on the CPU here, one process per rank.",
            role="secondary",
            wrap=True,
        )
        self.add(self._no_devices)
        self._devices: list[DeviceRow] = []
        self._devices_room = QGridLayout()
        self._devices_room.setVerticalSpacing(2 * GRID)
        room = QWidget()
        room.setLayout(self._devices_room)
        self._devices_room.setContentsMargins(0, 0, 0, 0)
        self.add(room)
        self.add(label("Busiest processes", Type.HEADING))
        self.processes = ProcessModel(self)
        self.table = self._make_table()
        self.add(self.table, 1)

    def show_problem(self, sentence: str) -> None:
        """Show why there is no new data; empty if all is well."""
        self._problem.setText(sentence)
        self._problem.setVisible(bool(sentence))

    def show_interpreter(self, facts: InterpreterFacts) -> None:
        """Show facts of the Python that runs would use."""
        self._software.show_interpreter(facts)
        why = facts.error or ("" if facts.torch else "no torch: runs need an interpreter that has it")
        self._wrong.setText(f"{facts.executable}: {why}")
        self._wrong.setVisible(bool(why))

    def show_software(self, facts: SoftwareFacts) -> None:
        """Show facts of the system."""
        self._software.show_software(facts)

    def show_activity(self, now: Activity) -> None:
        """Show the device's current state."""
        self._host.setText(now.host)
        cores = f"{now.cores} core{'' if now.cores == 1 else 's'}"
        load = ", ".join(f"{value:.2f}" for value in now.load)
        self._charts["CPU"].add(
            now.cpu, f"{now.cpu:.0f} % of {cores}", exact=f"load over 1, 5 and 15 minutes: {load}"
        )
        self.cores.show_loads(now.core_loads)
        share = 100.0 * now.memory_used / now.memory_total if now.memory_total else 0.0
        self._charts["Memory"].add(
            share,
            f"{size(now.memory_used)} of {size(now.memory_total)}",
            exact=f"{now.memory_used:,} of {now.memory_total:,} bytes",
        )
        self._charts["Received"].add(now.received, f"{size(now.received)}/s")
        self._charts["Sent"].add(now.sent, f"{size(now.sent)}/s")
        self._disk.setText(f"Run storage: {size(now.disk_free)} of {size(now.disk_total)} free")
        self._disk.setToolTip(f"{now.disk_free:,} of {now.disk_total:,} bytes")
        self._show_devices(now)
        self.processes.show_processes(now.processes)

    def _show_devices(self, now: Activity) -> None:
        self._no_devices.setVisible(not now.devices)
        while len(self._devices) < len(now.devices):
            row = DeviceRow(self._theme)
            row.run_asked.connect(self.run_asked)
            self._devices_room.addWidget(row, len(self._devices), 0)
            self._devices.append(row)
        for row, device in zip(self._devices, now.devices, strict=False):
            row.show_device(device)

    def _make_table(self) -> QTableView:
        table = QTableView()
        table.setTabKeyNavigation(False)  # else Tab never leaves it
        table.setModel(self.processes)
        table.setAccessibleName("Busiest processes")
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        table.setShowGrid(False)
        table.verticalHeader().hide()
        table.setMinimumHeight(200)
        header = table.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        for column, width in _WIDTHS.items():
            table.setColumnWidth(column, width)
        for column in (0, table.model().columnCount() - 1):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.Stretch)
        table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        table.activated.connect(self._open)
        table.setToolTip("A double click, or Enter, on a process of a run opens the run")
        return table

    def _open(self, index: QModelIndex) -> None:
        run_id = self.processes.process(index.row()).run_id
        if run_id:
            self.run_asked.emit(run_id)


_LEAST = 200
"""Pixels for a title and a value such as `3.1 GiB of 23.5 GiB`."""


class ChartGrid(QWidget):
    """Grid of all charts in one row, or in two rows of half each."""

    def __init__(self, charts: Sequence[QWidget], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._charts = tuple(charts)
        self._columns = 0
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(3 * GRID)
        self._grid.setVerticalSpacing(GRID)
        self._lay(len(self._charts))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        count = len(self._charts)
        self._lay(count if event.size().width() >= count * (_LEAST + 3 * GRID) else -(-count // 2))

    def _lay(self, columns: int) -> None:
        if columns == self._columns:
            return
        self._columns = columns
        for at, chart in enumerate(self._charts):
            self._grid.addWidget(chart, at // columns, at % columns)
        for column in range(len(self._charts)):
            self._grid.setColumnStretch(column, 1 if column < columns else 0)


_NAMES = ("System", "Kernel", "Python", "torch", "NVIDIA driver")
_SHARES = (5, 5, 2, 3, 3)
"""Relative widths of the charts."""
_LOOKING = "…"
_NONE = "none"


class SoftwareRow(QWidget):
    """Row with system, kernel, Python, torch and driver."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._values = {name: ElidedLabel() for name in _NAMES}
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, GRID)
        grid.setHorizontalSpacing(2 * GRID)
        grid.setVerticalSpacing(0)
        for column, (name, value) in enumerate(self._values.items()):
            grid.addWidget(label(name, Type.SMALL, "secondary"), 0, column)
            grid.addWidget(value, 1, column)
            grid.setColumnStretch(column, _SHARES[column])
            self._say(name, _LOOKING)

    def show_software(self, facts: SoftwareFacts) -> None:
        """Show the system's own software."""
        self._say("System", facts.system)
        self._say("Kernel", f"{facts.kernel}, {facts.machine}")
        driver = facts.driver or _NONE
        self._say("NVIDIA driver", driver, "" if facts.driver else "No NVIDIA driver was found.")

    def show_interpreter(self, facts: InterpreterFacts) -> None:
        """Show the Python that runs use."""
        self._say("Python", facts.python or "not found", facts.executable)
        self._say("torch", facts.torch or _NONE)

    def _say(self, name: str, text: str, exact: str = "") -> None:
        value = self._values[name]
        value.setText(text)
        value.setToolTip(plain_tip(exact or text))
        value.setAccessibleName(f"{name}: {text}")


_HEIGHT = 32
_INSET = 3
_SIDE = 1
"""Space for the focus frame, above and at the side."""
_WIDEST = 24
_GAPS = ((6, 2), (3, 1))
"""Gap in pixels by minimum pixels per core."""


class CoreBars(Chart):
    """Chart of bars as wide as the space allows, one per core; its markers are the cores."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "Load of each core", parent)
        self._loads: tuple[float, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_loads(self, loads: tuple[float, ...]) -> None:
        """Show the load of each core in percent."""
        self._loads = loads
        self.changed()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(160, self.fontMetrics().height() + 4 + _HEIGHT + 2 * _INSET)

    def marks(self) -> int:
        return len(self._loads)

    def mark_at(self, place: QPointF) -> int | None:
        field = self._field()
        if not self._loads or not field.contains(place):
            return None
        return min(int((place.x() - field.left()) / field.width() * len(self._loads)), len(self._loads) - 1)

    def text_of(self, mark: int) -> str:
        return f"core {mark}: {self._loads[mark]:.0f} %"

    def draw(self, painter: QPainter) -> None:
        field, count = self._field(), len(self._loads)
        line = QRectF(_SIDE, _INSET, self.width() - 2 * _SIDE, self.fontMetrics().height())
        painter.setPen(self._theme.colour("secondary"))
        painter.drawText(line, Qt.AlignmentFlag.AlignLeft, f"{count} cores" if count > 1 else "Cores")
        if not count:
            return
        painter.setPen(self._theme.colour("text"))
        painter.drawText(line, Qt.AlignmentFlag.AlignRight, self._said())
        each = field.width() / count
        gap = next((gap for least, gap in _GAPS if each >= least), 0)
        for core, load in enumerate(self._loads):
            left, right = round(field.left() + core * each), round(field.left() + (core + 1) * each) - gap
            ground = QRectF(left, field.top(), right - left, field.height())
            painter.fillRect(ground, self._theme.colour("raised"))
            filled = field.height() * load / 100
            colour = self._theme.palette.accent if core == self.mark else self._theme.palette.series[0]
            painter.fillRect(QRectF(left, field.bottom() - filled, right - left, filled), colour)

    def _said(self) -> str:
        """Return the text for the hovered core, or else for the busiest one."""
        if self.mark is not None:
            return self.text_of(self.mark)
        busiest = max(range(len(self._loads)), key=self._loads.__getitem__)
        return f"busiest: {self.text_of(busiest)}"

    def _field(self) -> QRectF:
        width = min(self.width() - 2 * _SIDE, max(1, len(self._loads)) * _WIDEST)
        return QRectF(_SIDE, _INSET + self.fontMetrics().height() + 4, width, _HEIGHT)


# Table of a machine's busiest processes.

COLUMNS = ("Process", "PID", "User", "CPU", "Memory", "Run")
_NUMBERS = (1, 3, 4)
Index = QModelIndex | QPersistentModelIndex


class ProcessModel(QAbstractTableModel):
    """Table model whose selection follows the process when rows move."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: tuple[ProcessActivity, ...] = ()

    def show_processes(self, rows: tuple[ProcessActivity, ...]) -> None:
        """Show these."""
        if rows == self._rows:
            return
        self._drop({row.pid for row in rows})
        self._append(rows)
        self._put_in_order(rows)

    def process(self, row: int) -> ProcessActivity:
        """Return the process in a row."""
        return self._rows[row]

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: N802, B008 - Qt's signature
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: N802, B008 - Qt's signature
        return 0 if parent.isValid() else len(COLUMNS)

    def headerData(  # noqa: N802 - Qt's name
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is Qt.Orientation.Vertical:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return COLUMNS[section]
        return _alignment(section) if role == Qt.ItemDataRole.TextAlignmentRole else None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        row = self._rows[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            texts = (row.name, str(row.pid), row.user, f"{row.cpu:.0f} %", size(row.resident), row.run_id)
            return shown(texts[index.column()])
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(index.column())
        if role == Qt.ItemDataRole.ToolTipRole:
            tips = {3: f"{row.cpu:.1f} % of one core", 4: f"{row.resident:,} bytes resident", 5: row.run_id}
            return plain_tip(tips.get(index.column(), ""))
        return None

    def _drop(self, kept: set[int]) -> None:
        """Remove the rows whose process is not in `kept`."""
        for at in range(len(self._rows) - 1, -1, -1):
            if self._rows[at].pid not in kept:
                self.beginRemoveRows(QModelIndex(), at, at)
                self._rows = (*self._rows[:at], *self._rows[at + 1 :])
                self.endRemoveRows()

    def _append(self, rows: tuple[ProcessActivity, ...]) -> None:
        """Append the processes of `rows` that have no row yet."""
        there = {row.pid for row in self._rows}
        new = [row for row in rows if row.pid not in there]
        if new:
            self.beginInsertRows(QModelIndex(), len(self._rows), len(self._rows) + len(new) - 1)
            self._rows = (*self._rows, *new)
            self.endInsertRows()

    def _put_in_order(self, rows: tuple[ProcessActivity, ...]) -> None:
        """Reorder the rows of the same processes; persistent indexes follow their process."""
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        places = {row.pid: at for at, row in enumerate(rows)}
        after = [self.index(places[self._rows[index.row()].pid], index.column()) for index in before]
        self._rows = rows
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()


def _alignment(column: int) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if column in _NUMBERS else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter
