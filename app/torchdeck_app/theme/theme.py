"""Theme in use: follows the system until the user chooses. Style of Qt's widgets in its colours."""

from __future__ import annotations

from string import Template
from typing import Literal, get_args

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication

from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.icons import ICONS
from torchdeck_app.theme.palette import DARK, LIGHT, ColourName, Palette

Mode = Literal["system", "light", "dark"]
MODES: tuple[Mode, ...] = get_args(Mode)


class Theme(QObject):
    """Colours of the application. Custom-painted widgets use `palette` and repaint on `changed`."""

    changed = Signal()

    def __init__(self, app: QApplication, mode: Mode = "system") -> None:
        super().__init__(app)
        self._app = app
        self._mode: Mode = mode
        self._palette = self._chosen()
        app.setStyle("Fusion")
        app.setFont(font(Type.BODY))
        app.styleHints().colorSchemeChanged.connect(self._follow)
        self._apply()

    @property
    def mode(self) -> Mode:
        """Return the user's choices."""
        return self._mode

    @property
    def palette(self) -> Palette:
        """Return the current colours."""
        return self._palette

    def colour(self, name: ColourName) -> QColor:
        """Return one of the palette's colours by name, such as `accent`."""
        return QColor(self._palette.named(name))

    def set_mode(self, mode: Mode) -> None:
        """Use light or dark colours, or follow the system."""
        self._mode = mode
        self._follow()

    def _chosen(self) -> Palette:
        if self._mode == "system":
            dark = self._app.styleHints().colorScheme() == Qt.ColorScheme.Dark
        else:
            dark = self._mode == "dark"
        return DARK if dark else LIGHT

    def _follow(self) -> None:
        chosen = self._chosen()
        if chosen is not self._palette:
            self._palette = chosen
            self._apply()
            self.changed.emit()

    def _apply(self) -> None:
        self._app.setPalette(qt_palette(self._palette))
        self._app.setStyleSheet(sheet(self._palette))


# Style of Qt's widgets: Fusion, our colours, and a few rules for what Fusion lacks.

# buttonSymbols 2: without buttons; the text field ends where they begin, so they go to the left
_SHEET = Template("""
QToolTip { background: $raised; color: $text; border: 1px solid $border; padding: 4px 6px; }
QMainWindow::separator { background: $line; width: 1px; height: 1px; }
QSplitter::handle { background: $line; }
QSplitter::handle:hover { background: $accent; }
QSplitter::handle:horizontal { width: 1px; margin: 0 2px; }
QSplitter::handle:vertical { height: 1px; margin: 2px 0; }
QFrame[role="panel"] { background: $surface; border: 1px solid $line; border-radius: 6px; }
QFrame[role="overlay"] { background: $surface; border: 1px solid $border; border-radius: 8px; }
QLabel[role="secondary"] { color: $secondary; }
QLabel[role="error"] { color: $bad; }
QLabel[role="warning"] { color: $warn; }

QLineEdit, QAbstractSpinBox, QComboBox, QPlainTextEdit, QTextEdit, QAbstractItemView {
  background: $surface; color: $text; border: 1px solid $border; border-radius: 4px;
  selection-background-color: $accent; selection-color: $on_accent; placeholder-text-color: $secondary; }
QAbstractItemView { selection-background-color: $selection; selection-color: $text;
  outline: 1px solid $accent; }
QLineEdit, QAbstractSpinBox, QComboBox { padding: 3px 6px; min-height: 20px; }
QAbstractSpinBox QLineEdit, QComboBox QLineEdit { border: 0; padding: 0; min-height: 0;
  background: transparent; }
QAbstractSpinBox QLineEdit { padding-left: 4px; }
QLineEdit:hover, QAbstractSpinBox:hover, QComboBox:hover { border-color: $secondary; }
QLineEdit:focus, QAbstractSpinBox:focus, QComboBox:focus, QPlainTextEdit:focus, QTextEdit:focus,
QAbstractItemView:focus { border-color: $accent; }
QLineEdit:disabled, QLineEdit:read-only, QAbstractSpinBox:disabled, QComboBox:disabled,
QPlainTextEdit:disabled {
  background: $window; color: $disabled; border-color: $line; }
QPlainTextEdit[role="error"], QPlainTextEdit[role="warning"], QPlainTextEdit[role="secondary"] {
  background: transparent; border: 0; color: $bad; }
QPlainTextEdit[role="warning"] { color: $warn; }
QPlainTextEdit[role="secondary"] { color: $secondary; }
QComboBox { padding-right: 24px; }
QComboBox::drop-down { border: 0; width: 24px; subcontrol-origin: border; subcontrol-position: center right; }
QComboBox::down-arrow { image: url("$marks/down.svg"); width: 12px; height: 12px; }
QComboBox::down-arrow:disabled { image: url("$marks/down-off.svg"); }
QComboBox QAbstractItemView { border-radius: 0; outline: 0; }
QAbstractSpinBox { padding: 1px 24px 1px 2px; }
QAbstractSpinBox::up-button, QAbstractSpinBox::down-button { subcontrol-origin: border; border: 0;
  width: 22px;
  background: transparent; }
QAbstractSpinBox::up-button { subcontrol-position: top right; margin-top: 2px; margin-right: 1px; }
QAbstractSpinBox::down-button { subcontrol-position: bottom right; margin-bottom: 2px; margin-right: 1px; }
QAbstractSpinBox::up-button:hover, QAbstractSpinBox::down-button:hover { background: $raised;
  border-radius: 2px; }
QAbstractSpinBox::up-button:pressed, QAbstractSpinBox::down-button:pressed { background: $line; }
QAbstractSpinBox[buttonSymbols="2"] { padding: 1px 6px; }
QAbstractSpinBox[buttonSymbols="2"]::up-button, QAbstractSpinBox[buttonSymbols="2"]::down-button {
  subcontrol-position: top left; width: 0; height: 0; margin: 0; }
QAbstractSpinBox::up-arrow { image: url("$marks/up.svg"); width: 10px; height: 10px; }
QAbstractSpinBox::down-arrow { image: url("$marks/down.svg"); width: 10px; height: 10px; }
QAbstractSpinBox::up-arrow:disabled, QAbstractSpinBox::up-arrow:off { image: url("$marks/up-off.svg"); }
QAbstractSpinBox::down-arrow:disabled, QAbstractSpinBox::down-arrow:off { image: url("$marks/down-off.svg"); }

QCheckBox, QRadioButton { spacing: 8px; }
QCheckBox:disabled, QRadioButton:disabled { color: $disabled; }
QCheckBox::indicator, QGroupBox::indicator, QAbstractItemView::indicator, QRadioButton::indicator {
  width: 14px; height: 14px; background: $surface; border: 1px solid $quiet; border-radius: 3px; }
QRadioButton::indicator { border-radius: 8px; }
QCheckBox::indicator:hover, QRadioButton::indicator:hover, QGroupBox::indicator:hover {
  border-color: $accent; }
QCheckBox::indicator:focus, QRadioButton::indicator:focus { border: 2px solid $accent; width: 12px;
  height: 12px; }
QCheckBox::indicator:checked, QGroupBox::indicator:checked, QAbstractItemView::indicator:checked {
  background: $accent; border-color: $accent; image: url("$marks/check.svg"); }
QCheckBox::indicator:indeterminate, QAbstractItemView::indicator:indeterminate {
  background: $accent; border-color: $accent; image: url("$marks/dash.svg"); }
QRadioButton::indicator:checked { background: $accent; border-color: $accent; image: url("$marks/dot.svg"); }
QCheckBox::indicator:checked:focus, QCheckBox::indicator:indeterminate:focus,
QRadioButton::indicator:checked:focus { border-color: $text; }
QCheckBox::indicator:disabled, QRadioButton::indicator:disabled { background: $window;
  border-color: $disabled; }
QCheckBox::indicator:checked:disabled, QCheckBox::indicator:indeterminate:disabled,
QRadioButton::indicator:checked:disabled { background: $disabled; border-color: $disabled; }
QDialogButtonBox { dialogbuttonbox-buttons-have-icons: 0; }
QGroupBox { border: 1px solid $line; border-radius: 6px; margin-top: 12px; padding-top: 8px; }
QGroupBox::title { subcontrol-origin: margin; left: 8px; padding: 0 4px; }

QPushButton { background: $raised; color: $text; border: 1px solid $border; border-radius: 4px;
  padding: 4px 12px; min-height: 20px; }
QPushButton:hover { border-color: $secondary; }
QPushButton:focus { border-color: $accent; }
QPushButton:pressed { background: $line; }
QPushButton:checked { background: $selection; border-color: $accent; }
QPushButton[role="primary"] { background: $accent; color: $on_accent; border-color: $accent; }
QPushButton[role="primary"]:hover { border-color: $text; }
QPushButton[role="primary"]:focus { border: 2px solid $text; padding: 3px 11px; background: $selection;
  color: $text; }
QPushButton[role="destructive"] { color: $bad; }
QPushButton:disabled, QPushButton[role="primary"]:disabled, QPushButton[role="destructive"]:disabled {
  background: $raised; color: $disabled; border-color: $line; }
QToolButton { background: transparent; color: $text; border: 1px solid transparent; border-radius: 4px;
  padding: 3px; }
QToolButton:hover { background: $raised; border-color: $line; }
QToolButton:pressed { background: $line; }
QToolButton:focus { border-color: $accent; }
QToolButton:checked { background: $selection; }
QToolButton:disabled { color: $disabled; }
QToolButton[popupMode="1"], QToolButton[popupMode="2"] { padding-right: 18px; }
QToolButton::menu-indicator { image: url("$marks/down.svg"); width: 10px; height: 10px; right: 4px;
  subcontrol-position: center right; }
QToolButton::menu-indicator:disabled { image: url("$marks/down-off.svg"); }
QToolButton::menu-button { border: 0; width: 16px; }
QToolButton::menu-arrow { image: url("$marks/down.svg"); width: 10px; height: 10px; }
QFrame[role="navigation"] { background: $window; border: 0; border-right: 1px solid $line; }
QFrame[role="navigation"] QToolButton { color: $secondary; }
QFrame[role="navigation"] QToolButton:checked, QFrame[role="navigation"] QToolButton:hover { color: $text; }
QToolButton[role="sign"] { padding: 0 4px; }
QToolButton[role="link"] { color: $accent; }

QTabWidget::pane { border: 0; border-top: 1px solid $line; }
QTabBar { background: transparent; }
QTabBar::tab { background: transparent; color: $secondary; padding: 5px 11px;
  border: 1px solid transparent; border-bottom: 2px solid transparent; }
QTabBar::tab:selected { color: $text; border-bottom-color: $accent; }
QTabBar::tab:hover { color: $text; }
QTabBar::tab:selected:focus { border-color: $accent; border-radius: 4px; }
QTabBar::tab:disabled { color: $disabled; }
QHeaderView { background: $surface; border: 0; border-radius: 0; }
QHeaderView::section { background: $surface; color: $secondary; border: 0; border-bottom: 1px solid $line;
  padding: 4px 8px; }
QHeaderView::section:hover { color: $text; }
QHeaderView::up-arrow { image: url("$marks/up.svg"); width: 10px; height: 10px; }
QHeaderView::down-arrow { image: url("$marks/down.svg"); width: 10px; height: 10px; }
QTableCornerButton::section { background: $surface; border: 0; border-bottom: 1px solid $line; }
QTableView, QTreeView, QListView { gridline-color: $line; alternate-background-color: $window; }
QTableView::item, QTreeView::item { padding: 0 4px; }
QScrollArea[role="scrolled"] { border: 1px solid transparent; }
QScrollArea[role="scrolled"]:focus { border-color: $accent; }
QListView[role="tiles"] { background: transparent; border: 0; }
QListView::item:hover { background: $raised; }
QTableView::item:selected, QTreeView::item:selected, QListView::item:selected { background: $selection; }
QAbstractScrollArea::corner { background: transparent; }
QScrollBar:vertical { background: transparent; width: 12px; margin: 0; }
QScrollBar:horizontal { background: transparent; height: 12px; margin: 0; }
QScrollBar::handle { background: $disabled; border-radius: 4px; margin: 2px; }
QScrollBar::handle:hover { background: $secondary; }
QScrollBar::handle:vertical { min-height: 24px; }
QScrollBar::handle:horizontal { min-width: 24px; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QSlider { border: 1px solid transparent; border-radius: 4px; }
QSlider:focus { border-color: $accent; }
QSlider::groove:horizontal { height: 4px; background: $border; border-radius: 2px; }
QSlider::sub-page:horizontal { background: $accent; border-radius: 2px; }
QSlider::handle:horizontal { width: 14px; height: 14px; margin: -6px 0; border-radius: 8px;
  background: $surface; border: 1px solid $quiet; }
QSlider::handle:horizontal:hover, QSlider::handle:horizontal:focus { border-color: $accent; }
QSlider::handle:horizontal:disabled { border-color: $disabled; }
QSlider::sub-page:horizontal:disabled { background: $disabled; }
QProgressBar { background: $raised; border: 1px solid $line; border-radius: 4px; text-align: center;
  color: $text; }
QProgressBar::chunk { background: $selection; border-right: 2px solid $accent; border-radius: 3px; }
QProgressBar[textVisible="false"] { max-height: 6px; border: 0; border-radius: 3px; background: $line; }
QProgressBar[textVisible="false"]::chunk { background: $accent; border: 0; }

QStatusBar { background: $surface; border-top: 1px solid $line; }
QStatusBar::item { border: 0; }
QMenuBar { background: $window; border-bottom: 1px solid $line; padding: 2px 4px; }
QMenuBar::item { background: transparent; padding: 4px 8px; border-radius: 4px; }
QMenuBar::item:selected, QMenuBar::item:pressed { background: $selection; color: $text; }
QMenuBar::item:disabled { color: $disabled; }
QMenu { background: $surface; color: $text; border: 1px solid $border; padding: 4px; }
QMenu::item { padding: 4px 24px 4px 12px; border-radius: 4px; }
QMenu::item:selected { background: $selection; color: $text; }
QMenu::item:disabled { color: $disabled; }
QMenu::item:disabled:selected { background: transparent; }
QMenu::separator { height: 1px; background: $line; margin: 4px 0; }
""")
_MARKS = ICONS / "marks"
"""Arrows and ticks: a style sheet removes the native ones, and its images ignore the palette."""


def sheet(palette: Palette) -> str:
    """Return the style sheet; widgets select a rule by their `role` property."""
    names = {name: value for name, value in vars(palette).items() if isinstance(value, str)}
    return _SHEET.substitute(names, marks=(_MARKS / palette.scheme).as_posix())


def qt_palette(palette: Palette) -> QPalette:
    """Return Qt's palette roles in our colours."""
    role = QPalette.ColorRole
    colours = {
        role.Window: palette.window,
        role.WindowText: palette.text,
        role.Base: palette.surface,
        role.AlternateBase: palette.raised,
        role.Text: palette.text,
        role.PlaceholderText: palette.secondary,
        role.Button: palette.raised,
        role.ButtonText: palette.text,
        role.BrightText: palette.bad,
        role.ToolTipBase: palette.raised,
        role.ToolTipText: palette.text,
        role.Highlight: palette.accent,
        role.HighlightedText: palette.on_accent,
        role.Link: palette.accent,
        role.LinkVisited: palette.accent,
        role.Light: palette.raised,
        role.Midlight: palette.line,
        role.Mid: palette.line,
        role.Dark: palette.line,
        role.Shadow: palette.line,
        role.Accent: palette.accent,
    }
    made = QPalette()
    for which, colour in colours.items():
        made.setColor(which, QColor(colour))
    for which in (role.WindowText, role.Text, role.ButtonText):
        made.setColor(QPalette.ColorGroup.Disabled, which, QColor(palette.disabled))
    return made
