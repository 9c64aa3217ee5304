"""This machine as a card: what it is, how busy it is, its devices and its busiest processes."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtWidgets import QAbstractItemView, QGridLayout, QHeaderView, QTableView, QWidget

from torchdeck.contract.inventory import InterpreterFacts
from torchdeck.nodes.activity import Activity
from torchdeck.nodes.software import SoftwareFacts
from torchdeck.quantities import size
from torchdeck_app.nodes.chart_grid import ChartGrid
from torchdeck_app.nodes.core_bars import CoreBars
from torchdeck_app.nodes.device_row import DeviceRow
from torchdeck_app.nodes.process_model import ProcessModel
from torchdeck_app.nodes.software_row import SoftwareRow
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.panel import GRID, Panel, label
from torchdeck_app.widgets.usage_chart import UsageChart

_WIDTHS = {1: 76, 2: 92, 3: 72, 4: 96}
"""Pixels of the columns of processes; name and run share what is left."""


class MachineCard(Panel):
    """One machine."""

    run_asked = Signal(str)
    """The id of a run that is to be opened."""

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
            "No NVIDIA GPU was found: runs train on the CPU here, one rank a process.",
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
        """Why nothing new is known of it; empty where all is well."""
        self._problem.setText(sentence)
        self._problem.setVisible(bool(sentence))

    def show_interpreter(self, facts: InterpreterFacts) -> None:
        """What the Python that runs would use is."""
        self._software.show_interpreter(facts)
        why = facts.error or ("" if facts.torch else "no torch: runs need an interpreter that has it")
        self._wrong.setText(f"{facts.executable}: {why}")
        self._wrong.setVisible(bool(why))

    def show_software(self, facts: SoftwareFacts) -> None:
        """What its system is."""
        self._software.show_software(facts)

    def show_activity(self, now: Activity) -> None:
        """As it is now."""
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
        self._disk.setText(f"Disk of the runs: {size(now.disk_free)} of {size(now.disk_total)} free")
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
