"""Dialog that creates nodes from the hosts in the SSH config."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QPalette, QPixmap
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QDialogButtonBox,
    QStackedWidget,
    QStyle,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from torchdeck.shown_text import shown
from torchdeck.use_cases.nodes.import_hosts import ConfigHost, find_hosts, import_hosts
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.dialogs import begin_with
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import GRID, EmptyState, label

_MEANS = (
    "A node's address is the Host of the config, so its settings there (IdentityFile, ProxyJump, "
    "HostKeyAlias, …) still apply."
)
_EMPTY = "All hosts of the SSH config are listed here, to be imported as nodes with their settings."


class ImportDialog(QDialog):
    """Dialog with a checkbox per host; nodes already in the inventory stay unchanged."""

    imported = Signal(object)
    """Emitted with the names of the nodes that are now in the inventory."""
    add_asked = Signal()
    """Emitted to add a node by hand instead; the dialog is closed."""

    def __init__(
        self,
        theme: Theme,
        operations: Operations,
        logins: Logins,
        present: Collection[str],
        parent: QWidget | None = None,
        *,
        file: Path | None = None,
    ) -> None:
        """Args:
        theme: theme of the window.
        operations: runs reading the config and writing the inventory.
        logins: provides the inventory.
        present: names of the nodes in the inventory.
        parent: Qt parent.
        file: the config. Default: ~/.ssh/config.
        """
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Import nodes")
        self._operations, self._logins, self._present = operations, logins, frozenset(present)
        self._file = Path("~/.ssh/config").expanduser() if file is None else file
        self._hosts: dict[str, ConfigHost] = {}
        self.said = label(f"Reading {self._file} …", role="secondary", wrap=True)
        self.list = QTreeWidget()
        self.list.setAccessibleName("Hosts of the SSH config")
        self.list.setHeaderLabels(["Host", "Leads to"])
        self.list.setRootIsDecorated(False)
        self.list.setUniformRowHeights(True)
        self.list.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.list.itemChanged.connect(lambda *_: self._count())
        self.empty = EmptyState(
            theme, "nodes", "No hosts to import", _EMPTY, button="Add a node …", pressed=self._add_instead
        )
        self._found = QStackedWidget()
        self._found.addWidget(self.list)
        self._found.addWidget(self.empty)
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.import_button = self.buttons.addButton("Import", QDialogButtonBox.ButtonRole.AcceptRole)
        self.buttons.accepted.connect(self._import)
        self.buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(GRID)
        column.addWidget(self.said)
        column.addWidget(self._found, 1)
        column.addWidget(label(_MEANS, role="secondary", wrap=True))
        column.addWidget(self.buttons)
        begin_with(self, 640, 480)
        self._count()
        operations.run(
            "reading the SSH config",
            lambda _progress, _cancel: find_hosts(self._file, logins.home) if self._file.is_file() else None,
            done=self._show,
            failed=lambda error: self.said.setText(str(error)),
        )

    @property
    def chosen(self) -> list[str]:
        """Return the names of the checked hosts."""
        items = [self.list.topLevelItem(row) for row in range(self.list.topLevelItemCount())]
        return [item.text(0) for item in items if item and item.checkState(0) is Qt.CheckState.Checked]

    def _show(self, hosts: list[ConfigHost] | None) -> None:
        if hosts is None:
            self.said.setText(f"There is no file {self._file}: add nodes by hand instead.")
            self._found.setCurrentWidget(self.empty)
            return
        self._hosts = {host.name: host for host in hosts}
        for host in hosts:
            self.list.addTopLevelItem(self._item(host))
        self._fit_names()
        self._found.setCurrentWidget(self.list if hosts else self.empty)
        none = f"{self._file} names no hosts; patterns are not imported."
        self.said.setText(f"{len(hosts)} hosts in {self._file}" if hosts else none)
        self._count()

    def _add_instead(self) -> None:
        self.reject()
        self.add_asked.emit()

    def _fit_names(self) -> None:
        """Make room for every name next to its box, which the column's own size hint ignores."""
        metrics, style = self.list.fontMetrics(), self.list.style()
        name = max((metrics.horizontalAdvance(name) for name in self._hosts), default=0)
        box = style.pixelMetric(QStyle.PixelMetric.PM_IndicatorWidth, None, self.list)
        least = self.list.header().sectionSizeHint(0)
        self.list.setColumnWidth(0, max(least, min(name + box + 5 * GRID, self.list.width() // 2)))

    def _item(self, host: ConfigHost) -> QTreeWidgetItem:
        known = host.name in self._present
        where = f"{host.where}   (is in the node inventory)" if known else host.where
        item = QTreeWidgetItem([shown(host.name), shown(where)])
        item.setToolTip(0, plain_tip(host.name))
        item.setToolTip(1, plain_tip(where))
        possible = host.entry is not None and not known
        item.setCheckState(0, Qt.CheckState.Checked if possible else Qt.CheckState.Unchecked)
        if not possible:
            item.setFlags(item.flags() & ~Qt.ItemFlag.ItemIsEnabled)
            item.setData(0, Qt.ItemDataRole.CheckStateRole, None)  # no box if it cannot be checked
            # keep its name aligned with the others
            item.setData(0, Qt.ItemDataRole.DecorationRole, self._blank())
            for column in range(2):  # the style sheet leaves disabled items as bright as the rest
                item.setForeground(column, self.palette().brush(QPalette.ColorRole.PlaceholderText))
        return item

    def _blank(self) -> QPixmap:
        """Return an empty pixmap as wide as a box."""
        blank = QPixmap(
            self.list.style().pixelMetric(QStyle.PixelMetric.PM_IndicatorWidth, None, self.list), 1
        )
        blank.fill(Qt.GlobalColor.transparent)
        return blank

    def _count(self) -> None:
        count = len(self.chosen)
        self.import_button.setText(f"Import {count} node{'s' * (count != 1)}" if count else "Import")
        self.import_button.setEnabled(count > 0)

    def _import(self) -> None:
        hosts, home = [self._hosts[name] for name in self.chosen], self._logins.home
        self.import_button.setEnabled(False)
        self._operations.run(
            "writing the node inventory",
            lambda _progress, _cancel: import_hosts(hosts, home),
            done=self._imported,
            failed=self._refused,
        )

    def _imported(self, names: list[str]) -> None:
        self.imported.emit(names)
        self.accept()

    def _refused(self, error: Exception) -> None:
        self.said.setText(f"The node inventory was not changed: {error}")
        self._count()
