"""Settings dialog. Each change takes effect at once; there is no Apply button."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QPushButton,
    QScrollArea,
    QStackedWidget,
    QTabWidget,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from torchdeck.trust.trusted_entry import Condition
from torchdeck.use_cases.trust import TrustedCode, distrust, trust, trusted_code
from torchdeck.use_cases.ui import QuietUi
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.settings.editor_fields import EditorFields
from torchdeck_app.settings.user_settings import THEMES, SettingsStore
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.theme import MODES, Theme
from torchdeck_app.widgets.dialogs import begin_with
from torchdeck_app.widgets.inputs import NamedBox
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import GRID, EmptyState, label

_WIDTH = 72 * GRID
_CHECKS = (
    (
        "ask_on_close",
        "C&onfirm before closing while runs are active",
        "Runs continue without the window either way, and are there again when it is opened.",
    ),
    (
        "notify_in_window",
        "Notify me in the a&pp when a run finishes",
        "A notice at the lower edge; a click on it opens the run.",
    ),
    (
        "notify_on_desktop",
        "Notify me on the &desktop when a run finishes",
        "If the desktop has a tray for notifications.",
    ),
)


class SettingsDialog(QDialog):
    """Dialog that shows and changes the settings."""

    def __init__(
        self, store: SettingsStore, theme: Theme, operations: Operations, parent: QWidget | None = None
    ) -> None:
        """Args:
        store: the settings.
        theme: theme of the window.
        operations: reads and changes the trust list.
        parent: Qt parent.
        """
        super().__init__(parent)
        self.setWindowTitle("Settings")
        self._store = store
        self._theme = NamedBox()
        self._theme.setAccessibleName("Colours")
        self._theme.setToolTip("Light or dark colours, or as the system has them")
        for mode in MODES:
            self._theme.addItem(THEMES[mode], mode)
        self._theme.activated.connect(lambda _index: store.change(theme=self._theme.currentData()))
        self.editor = EditorFields(store)
        self._checks: dict[str, QCheckBox] = {}
        self.trust_page = TrustPage(theme, operations, store.home)
        self.tabs = QTabWidget()
        self._lay_out()
        store.changed.connect(self._show)
        self._show()
        self._theme.setFocus()  # and not the tabs

    def _lay_out(self) -> None:
        page = QWidget()
        column = QVBoxLayout(page)
        column.setContentsMargins(3 * GRID, 2 * GRID, 3 * GRID, 0)
        column.setSpacing(GRID)
        column.addWidget(label("Appearance", Type.HEADING))
        form = QFormLayout()
        caption = QLabel("&Colours")
        caption.setBuddy(self._theme)
        form.addRow(caption, self._theme)
        column.addLayout(form)
        column.addSpacing(GRID)
        column.addWidget(label("Editor", Type.HEADING))
        column.addWidget(self.editor)
        column.addSpacing(GRID)
        column.addWidget(label("Runs", Type.HEADING))
        for name, text, hint in _CHECKS:
            self._add_check(column, name, text, hint)
        column.addStretch(1)
        area = QScrollArea()
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setWidgetResizable(True)
        area.setWidget(page)
        self.tabs.addTab(area, "General")
        self.tabs.addTab(self.trust_page, "Trusted code")
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        buttons.setContentsMargins(0, 0, 2 * GRID, 2 * GRID)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(GRID)
        whole.addWidget(self.tabs, 1)
        whole.addWidget(buttons)
        tabs = self.tabs.tabBar().sizeHint().height()
        begin_with(
            self, _WIDTH, column.heightForWidth(_WIDTH) + tabs + buttons.sizeHint().height() + 3 * GRID
        )

    def _add_check(self, layout: QVBoxLayout, name: str, text: str, hint: str) -> None:
        check = QCheckBox(text)
        check.setToolTip(hint)
        check.setAccessibleDescription(hint)
        check.toggled.connect(lambda on: self._store.change(**{name: on}))
        self._checks[name] = check
        layout.addWidget(check)
        below = label(hint, role="secondary", wrap=True)
        below.setContentsMargins(3 * GRID, 0, 0, 0)
        layout.addWidget(below)

    def _show(self) -> None:
        settings = self._store.settings
        self._theme.setCurrentIndex(MODES.index(settings.theme))
        self.editor.show_settings(settings)
        for name, check in self._checks.items():
            check.setChecked(getattr(settings, name))


# Settings page with the folders and files whose code may run.

_MEANS = (
    "Code in these folders and files runs without asking: recipes and what they import, interpreters "
    "that run files name, commands of SSH configs."
)
_EMPTY = "A folder is trusted with all below it, a file as it is. Torchdeck asks when code would run."


WHY = Qt.ItemDataRole.UserRole
"""Role of the reason why an item does not apply."""
_WORDS = {
    Condition.TRUSTED: "✓ Trusted",
    Condition.CHANGED: "? Asks again",
    Condition.WRITABLE: "✕ Others can write it",
    Condition.GONE: "○ Not there",
}


class TrustPage(QWidget):
    """Page that shows trusted folders and files, and adds and removes them."""

    def __init__(
        self, theme: Theme, operations: Operations, home: Path, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._operations, self._home = operations, home
        self.said = label("", role="secondary", wrap=True)
        self.list = QTreeWidget()
        self.list.setAccessibleName("Trusted folders and files")
        self.list.setHeaderLabels(["Folder or file", "Status"])
        self.list.setRootIsDecorated(False)
        self.list.setUniformRowHeights(True)
        self.list.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.list.header().setStretchLastSection(False)
        self.list.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.list.header().setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        self.list.itemSelectionChanged.connect(self._show_ability)
        self.empty = EmptyState(theme, "check", "Nothing is trusted yet", _EMPTY)
        self._found = QStackedWidget()
        self._found.addWidget(self.list)
        self._found.addWidget(self.empty)
        self.add_folder = QPushButton("Trust a &folder…")
        self.add_folder.clicked.connect(lambda: self._choose(QFileDialog.FileMode.Directory))
        self.add_file = QPushButton("Trust a f&ile…")
        self.add_file.clicked.connect(lambda: self._choose(QFileDialog.FileMode.ExistingFile))
        self.remove_button = QPushButton("&Remove")
        self.remove_button.setToolTip("Ask again before its code runs")
        self.remove_button.clicked.connect(self._remove)
        self._lay_out()
        self._show_ability()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 - Qt's name
        """Read the current list: the command line changes it too."""
        super().showEvent(event)
        self._run("reading what is trusted", lambda: None)

    def add(self, path: str) -> None:
        """Trust a folder or file."""
        self._run("trusting", lambda: trust(Path(path), self._home, QuietUi()))

    def _lay_out(self) -> None:
        buttons = QHBoxLayout()
        buttons.setSpacing(GRID)
        buttons.addWidget(self.add_folder)
        buttons.addWidget(self.add_file)
        buttons.addStretch(1)
        buttons.addWidget(self.remove_button)
        column = QVBoxLayout(self)
        column.setContentsMargins(3 * GRID, 2 * GRID, 3 * GRID, GRID)
        column.setSpacing(GRID)
        column.addWidget(label(_MEANS, role="secondary", wrap=True))
        column.addWidget(self._found, 1)
        column.addWidget(self.said)
        column.addLayout(buttons)

    def _choose(self, mode: QFileDialog.FileMode) -> None:
        is_folder = mode is QFileDialog.FileMode.Directory
        dialog = QFileDialog(self, "Trust a folder" if is_folder else "Trust a file")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(mode)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly, on=is_folder)
        dialog.setLabelText(QFileDialog.DialogLabel.Accept, "Trust")
        dialog.fileSelected.connect(self.add)
        dialog.open()

    def _remove(self) -> None:
        paths = [item.text(0) for item in self.list.selectedItems()]
        self._run("removing trust", lambda: [distrust(Path(path), self._home) for path in paths])

    def _run(self, name: str, change: Callable[[], object]) -> None:
        """Change the list if there is a change, and show it."""

        self.said.setText("")

        def call(_progress: object, _cancel: object) -> list[TrustedCode]:
            change()
            return trusted_code(self._home)

        self._operations.run(name, call, done=self._show, failed=self._refused)

    def _show(self, rows: list[TrustedCode]) -> None:
        self.list.clear()
        for row in rows:
            item = QTreeWidgetItem([row.path, _WORDS[row.state.condition]])
            item.setData(0, WHY, row.state.why)
            item.setToolTip(0, plain_tip(row.path))
            item.setToolTip(1, plain_tip(row.state.why))
            self.list.addTopLevelItem(item)
        self._found.setCurrentWidget(self.list if rows else self.empty)
        self._show_ability()

    def _refused(self, error: Exception) -> None:
        self.said.setText(f"Nothing was changed: {error}")

    def _show_ability(self) -> None:
        chosen = self.list.selectedItems()
        self.remove_button.setEnabled(bool(chosen))
        if chosen:
            why = chosen[0].data(0, WHY)
            self.said.setText(f"{chosen[0].text(0)}: {why}" if why else chosen[0].text(0))
