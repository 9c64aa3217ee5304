"""Connection matrix: choice of nodes, a measure button, the table and the problems in words."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QSizePolicy,
    QStackedWidget,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from torchdeck.nodes.inventory.schema import NodeInventory
from torchdeck.quantities import size
from torchdeck.shown_text import shown
from torchdeck.use_cases.nodes.connections import Measured, measure
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.bridge.operations import Operation, Operations
from torchdeck_app.bridge.worker_ui import WorkerUi
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import GRID, EmptyState, label
from torchdeck_app.widgets.splitter import Splitter

_TEACH = (
    "Choose two or more nodes and measure: each connects to every other at the address that training uses, "
    "reports the latency, and sends 8 MiB. Blocked connections make runs hang; they are shown in red with "
    "the reason."
)
_FEW = "Once the node inventory has two nodes, latency and bandwidth between them can be measured here."
_MOST_SAID = 6
_LINES = 2
"""Lines of a cell: latency and bandwidth."""
_WIDEST = 20 * GRID
"""Maximum width of a node's name at the table's edges in pixels."""


class MatrixView(QWidget):
    """View that measures only on request, since measuring uses what training may need."""

    over = Signal()
    """Emitted when the measurement has ended; it may have prompted for logins."""

    def __init__(
        self, theme: Theme, operations: Operations, logins: Logins, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._operations, self._logins = operations, logins
        self._measuring: Operation[Measured] | None = None
        self.model = MatrixModel(theme, self)
        self.nodes = QListWidget()
        self.nodes.setAccessibleName("Nodes to measure between")
        self.nodes.setSpacing(2)
        self.nodes.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)  # names are elided
        self.nodes.itemChanged.connect(lambda *_: self._count())
        self.button = QPushButton("Measure")
        self.button.clicked.connect(self._press)
        self.empty = EmptyState(theme, "nodes", "Nothing measured yet", _FEW)
        self.said = label("", role="secondary", wrap=True)
        self.said.hide()
        self.wrong = label("", role="error", wrap=True)
        self.wrong.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.wrong.hide()
        for text in (self.said, self.wrong):
            text.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        self.table = QTableView()
        self.table.setTabKeyNavigation(False)  # else Tab never leaves it
        self.table.setModel(self.model)
        self.table.setAccessibleName("Connections between nodes")
        for header in (self.table.horizontalHeader(), self.table.verticalHeader()):
            header.setTextElideMode(Qt.TextElideMode.ElideMiddle)
            header.setMaximumSectionSize(_WIDEST)
        self.table.verticalHeader().setMaximumWidth(_WIDEST)
        # all rows as high as two lines of text, which stay clear of the grid lines
        high = _LINES * self.table.fontMetrics().lineSpacing() + 2 * GRID
        self.table.verticalHeader().setMinimumSectionSize(high)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.table.selectionModel().currentChanged.connect(lambda *_: self._say_cell())
        self.cell = label("", role="secondary", wrap=True)
        self.cell.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        self._lay_out()
        self._count()

    @property
    def chosen(self) -> list[str]:
        """Return the names of the checked nodes."""
        items = [self.nodes.item(row) for row in range(self.nodes.count())]
        return [item.text() for item in items if item.checkState() is Qt.CheckState.Checked]

    def show_nodes(self, node_inventory: NodeInventory) -> None:
        """Offer these nodes; the selection is kept."""
        known = {self.nodes.item(row).text() for row in range(self.nodes.count())}
        chosen = set(self.chosen)
        self.nodes.clear()
        for name in node_inventory.nodes:
            item = QListWidgetItem(name)
            item.setToolTip(plain_tip(name))
            is_on = name in chosen or name not in known
            item.setCheckState(Qt.CheckState.Checked if is_on else Qt.CheckState.Unchecked)
            self.nodes.addItem(item)
        self._left.setVisible(len(node_inventory.nodes) > 1)
        self.empty.set_sentence(_TEACH if len(node_inventory.nodes) > 1 else _FEW)
        self._count()

    def stop(self) -> None:
        """Stop waiting for results."""
        if self._measuring is not None:
            self._measuring.cancel()

    def _lay_out(self) -> None:
        self._left = QWidget()
        self._left.hide()
        column = QVBoxLayout(self._left)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.nodes, 1)
        column.addWidget(self.button)
        self._found = QStackedWidget()
        self._found.addWidget(self.empty)
        self._found.addWidget(self.table)
        right = QWidget()
        shown = QVBoxLayout(right)
        shown.setContentsMargins(GRID, 0, 0, 0)
        shown.setSpacing(GRID)
        for widget in (self.said, self.wrong):
            shown.addWidget(widget)
        shown.addWidget(self._found, 1)
        shown.addWidget(self.cell)
        both = Splitter("Width of the list of nodes")
        both.addWidget(self._left)
        both.addWidget(right)
        both.setSizes([24 * GRID, 100 * GRID])
        both.setStretchFactor(1, 1)
        whole = QHBoxLayout(self)
        whole.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        whole.addWidget(both)

    def _count(self) -> None:
        count, busy = len(self.chosen), self._measuring is not None
        self.button.setText("Cancel" if busy else "Measure")
        self.button.setEnabled(busy or count >= 2)
        tip = (
            f"Measure the {count * (count - 1)} connections between them"
            if count >= 2
            else "Choose two or more nodes"
        )
        self.button.setToolTip("Cancel the measurement" if busy else tip)

    def _press(self) -> None:
        if self._measuring is not None:
            self._measuring.cancel()
            return
        names, connector = self.chosen, self._logins.asking
        self._logins.ask_again()
        self._say("Connecting to the nodes …")
        operation = self._operations.run(
            "measuring connections",
            lambda progress, cancel: measure(names, connector.home, WorkerUi(connector, progress, cancel)),
            done=self._show,
            failed=lambda error: self._over(f"Nothing was measured: {error}"),
        )
        operation.progressed.connect(lambda what: self._say(f"{what[:1].upper()}{what[1:]} …"))
        operation.cancelled.connect(lambda: self._over("Measuring was cancelled."))
        self._measuring = operation
        self._count()

    def _show(self, found: Measured) -> None:
        self.model.show(found)
        self._found.setCurrentWidget(self.table)
        self.table.resizeColumnsToContents()
        self.table.resizeRowsToContents()
        pairs = [(one, other) for one in found.names for other in found.names if one != other]
        reasons = list(dict.fromkeys(reason for pair in pairs if (reason := found.reason(*pair))))
        bad = sum(bool(found.reason(*pair)) for pair in pairs)
        more = [f"and {len(reasons) - _MOST_SAID} more reasons"] if len(reasons) > _MOST_SAID else []
        self.wrong.setText("\n".join([f"✕ {reason}" for reason in reasons[:_MOST_SAID]] + more))
        self.wrong.setVisible(bool(reasons))
        fine = f"All {len(pairs)} connections work."
        self._over(f"{bad} of {len(pairs)} connections failed:" if bad else fine)

    def _over(self, said: str) -> None:
        self._measuring = None
        self._say(said)
        self._count()
        self.over.emit()

    def _say(self, said: str) -> None:
        self.said.setText(said)
        self.said.show()

    def _say_cell(self) -> None:
        index, names = self.table.currentIndex(), self.model.found.names
        self.cell.setText(
            self.model.sentence(names[index.row()], names[index.column()]) if index.isValid() else ""
        )


# Connection matrix as a table model: the source is the row, the target the column.

Index = QModelIndex | QPersistentModelIndex
NONE = Measured(())


class MatrixModel(QAbstractTableModel):
    """Table model whose cells show latency and bandwidth, or a sign for no route with the reason as
    tooltip.
    """

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._found = NONE

    @property
    def found(self) -> Measured:
        """Return what is shown now."""
        return self._found

    def show(self, found: Measured) -> None:
        """Show these measurements."""
        self.beginResetModel()
        self._found = found
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: N802, B008 - Qt's signature
        return 0 if parent.isValid() else len(self._found.names)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: N802, B008 - Qt's signature
        return 0 if parent.isValid() else len(self._found.names)

    def headerData(  # noqa: N802 - Qt's name
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        name = self._found.names[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return shown(name if orientation is Qt.Orientation.Vertical else f"→ {name}")
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tip(f"{name}, {self._found.addresses.get(name, 'its address is not known')}")
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        source, target = self._found.names[index.row()], self._found.names[index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            return cell_words(self._found, source, target)
        if role in (Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleDescriptionRole):
            words = self.sentence(source, target)
            return plain_tip(words) if role == Qt.ItemDataRole.ToolTipRole else words
        if role == Qt.ItemDataRole.ForegroundRole and self._found.reason(source, target):
            return self._theme.colour("bad")
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignCenter
        return None

    def sentence(self, source: str, target: str) -> str:
        """Return one cell as a sentence."""
        reason = self._found.reason(source, target)
        if reason:
            return reason
        way = self._found.ways.get((source, target))
        if way is None:
            return f"{source} itself"
        latency = "" if way.latency is None else f", {way.latency * 1e3:.2f} ms round trip"
        bandwidth = "" if way.bandwidth is None else f", {size(way.bandwidth)}/s"
        return f"{source} reaches {target} ({self._found.addresses[target]}){latency}{bandwidth}"


def cell_words(found: Measured, source: str, target: str) -> str:
    """Return the text of a cell."""
    if found.reason(source, target):
        return "✕ no"
    way = found.ways.get((source, target))
    if way is None:
        return "–"
    latency = "" if way.latency is None else f"{way.latency * 1e3:.2g} ms"
    return f"{latency}\n{size(way.bandwidth)}/s" if way.bandwidth is not None else latency
