"""The dialog of the settings. Each takes effect at once; there is nothing to apply."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QFrame,
    QLabel,
    QScrollArea,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from torchdeck_app.bridge.operations import Operations
from torchdeck_app.settings.settings import THEMES
from torchdeck_app.settings.store import SettingsStore
from torchdeck_app.settings.trust_page import TrustPage
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.theme import MODES, Theme
from torchdeck_app.widgets.dialog_size import begin_with
from torchdeck_app.widgets.panel import GRID, label

_WIDTH = 72 * GRID
_CHECKS = (
    (
        "ask_on_close",
        "&Ask before closing while runs go on",
        "Runs go on without the window either way, and are there again when it is opened.",
    ),
    (
        "notify_in_window",
        "Tell in the &window when a run ends or fails",
        "A notice at the lower edge; a click on it opens the run.",
    ),
    (
        "notify_on_desktop",
        "Tell on the &desktop when a run ends or fails",
        "Where the desktop has a tray for notifications.",
    ),
)


class SettingsDialog(QDialog):
    """Shows and changes the settings."""

    def __init__(
        self, store: SettingsStore, theme: Theme, operations: Operations, parent: QWidget | None = None
    ) -> None:
        """
        Args:
            store: the settings.
            theme: of the window.
            operations: for reading and changing what is trusted.
            parent: Qt's owner.
        """
        super().__init__(parent)
        self.setWindowTitle("Settings")
        self._store = store
        self._theme = QComboBox()
        self._theme.setAccessibleName("Colours")
        self._theme.setToolTip("Light or dark colours; as the system has them, or always the same")
        for mode in MODES:
            self._theme.addItem(THEMES[mode], mode)
        self._theme.activated.connect(lambda _index: store.change(theme=self._theme.currentData()))
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
        for name, check in self._checks.items():
            check.setChecked(getattr(settings, name))
