"""Settings for all plots of the grid: x axis, smoothing, pause, zoom, choice of metrics, export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QAction, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QSizePolicy, QSlider, QToolButton, QVBoxLayout, QWidget

from torchdeck.runs.plots.run_part import window_of
from torchdeck.runs.plots.x_axis import X_NAMES, XKind
from torchdeck.shown_text import shown
from torchdeck_app.runs.plots.choices import MOST_SMOOTHING, Choices
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.icons import icon
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.inputs import NamedBox
from torchdeck_app.widgets.labels import ElidedLabel, plain_tip
from torchdeck_app.widgets.panel import GRID, label

_ALL = 1000
"""Stretch factor that gives a message all free space."""
_NAMED = 700
"""Minimum width in pixels for the slider's label next to it; below, only the tooltip names it."""
_WHOLE, _LEAST = 980, 560
"""Minimum widths in pixels of the whole bar, and of one without what the menus of plots have as well."""
_AXIS = 7
"""Visible letters of the axis name; the list shows all."""
_KINDS: tuple[XKind, ...] = tuple(X_NAMES)


class PlotToolbar(QWidget):
    """Toolbar above the plots."""

    chosen = Signal(object)
    """Emitted with the changed Choices."""
    node_chosen = Signal(str)
    """Emitted with the node whose ranks and metrics to show; empty: all."""
    paused = Signal(bool)
    reset_asked = Signal()
    metrics_asked = Signal()
    limits_asked = Signal()
    formulas_asked = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._choices = Choices()
        self._said: tuple[tuple[str, ...], str] | None = None
        self._axis = NamedBox()
        self._axis.addItems([X_NAMES[kind] for kind in _KINDS])
        # as wide as the selection: the message next to it needs the space
        self._axis.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self._axis.setMinimumContentsLength(_AXIS)
        self._axis.view().setMinimumWidth(self._axis.view().sizeHintForColumn(0) + 3 * GRID)
        self._named(self._axis, "X axis", "What the x axis shows")
        self._shown_kind: XKind = self._choices.kind
        self._axis.currentIndexChanged.connect(self._choose_kind)
        self.nodes = NamedBox()
        self.nodes.addItem("All nodes", "")
        self._named(self.nodes, "Nodes", "Whose ranks, GPUs and host are shown")
        self.nodes.hide()
        self.nodes.activated.connect(lambda _: self.node_chosen.emit(self.nodes.currentData()))
        self._make_smoothing()
        self.pause = self._action(
            "Pause", "pause", "Ctrl+Shift+P", "Stop following; new points wait", on=True
        )
        self.pause.toggled.connect(self._pause)
        self.reset = self._action("Reset zoom", "reset", "Ctrl+0", "Show everything (double-click a plot)")
        self.reset.triggered.connect(self.reset_asked)
        self.log_x = self._action("Log x", "", "Ctrl+Shift+X", "Logarithmic x axis", on=True)
        self.log_x.toggled.connect(lambda on: self._choose(replace(self._choices, log_x=on)))
        self.log_y = self._action("Log y", "", "Ctrl+Shift+Y", "Logarithmic y axes", on=True)
        self.log_y.toggled.connect(
            lambda on: self._choose(replace(self._choices, log_y=on, other_y=frozenset()))
        )
        self.limits = self._action("Limits…", "", "Ctrl+Shift+M", "Ends of the y axis of the plot used last")
        self.limits.triggered.connect(self.limits_asked)
        self.formulas = self._action("Formula…", "", "Ctrl+Shift+E", "Plot an expression such as exp(loss)")
        self.formulas.triggered.connect(self.formulas_asked)
        self.alone = self._action(
            "Full screen", "expand", "Ctrl+Shift+U", "Show the plot used last alone, with its legend", on=True
        )
        self.metrics = self._action("Metrics…", "sliders", "Ctrl+Shift+L", "Choose, hide and sort the plots")
        self.metrics.triggered.connect(self.metrics_asked)
        self.note = ElidedLabel()
        self.note.setProperty("role", "secondary")
        self.note.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.export = QToolButton()
        self.export.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._named(self.export, "Export", "Write a plot as PNG or SVG, or the rows as CSV")
        self._lay_out()
        theme.changed.connect(self._draw_icons)
        self._draw_icons()
        self._say_weight()

    def _make_smoothing(self) -> None:
        self._smoothing = QSlider(Qt.Orientation.Horizontal)
        self._smoothing.setRange(0, 100)
        self._smoothing.setMinimumWidth(48)
        self._smoothing.setMaximumWidth(112)
        self._smoothing.setMinimumHeight(3 * GRID)
        self._named(
            self._smoothing,
            "Smoothing",
            "Weight of the moving average, or rows of the window; logged values are drawn pale behind it",
        )
        self._smoothing.valueChanged.connect(self._smooth)
        self._smoothing_name = label("Smoothing", Type.BODY, "secondary")
        self._weight = QToolButton()
        self._weight.setCheckable(True)
        self._named(
            self._weight,
            "Mean of a window",
            "Smooth by the mean of the last rows, instead of an exponential average as in TensorBoard",
        )
        self._weight.setFixedWidth(self._weight.fontMetrics().horizontalAdvance("1,000 rows") + 2 * GRID)
        self._weight.toggled.connect(self._choose_window)

    def set_choices(self, choices: Choices) -> None:
        """Show these choices without emitting a signal."""
        before, self._choices = self._choices.kind, choices
        axes = QSignalBlocker(self.log_x), QSignalBlocker(self.log_y)
        with QSignalBlocker(self._axis), QSignalBlocker(self._smoothing), axes[0], axes[1]:
            if choices.kind != before:  # else it shows the actual axis, which may differ
                self._axis.setCurrentIndex(_KINDS.index(choices.kind))
            self._smoothing.setValue(position_of(choices.smoothing))
            self.log_x.setChecked(choices.log_x)
            self.log_y.setChecked(choices.log_y)
        with QSignalBlocker(self._weight):
            self._weight.setChecked(choices.by_window)
        self._say_weight()

    def show_kind(self, kind: XKind, asked: XKind) -> None:
        """Show the actual axis, which may differ from `asked`."""
        if asked != self._choices.kind:
            return  # the current choice has not been read yet
        self._shown_kind = kind
        with QSignalBlocker(self._axis):
            self._axis.setCurrentIndex(_KINDS.index(kind))

    def show_answer(self, problems: tuple[str, ...], note: str) -> None:
        """Report problems with the files, or a note; once, so that other messages are not replaced."""
        if self._said == (problems, note):
            return
        self._said = (problems, note)
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        self.say(problems[0] + more if problems else note, "error" if problems else "secondary")

    def forget_answer(self) -> None:
        """Report the next answer, whatever it is."""
        self._said = None

    def show_alone(self, *, on: bool) -> None:
        """Show whether one plot is shown alone, without emitting a signal."""
        with QSignalBlocker(self.alone):
            self.alone.setChecked(on)

    def set_nodes(self, names: Sequence[str]) -> None:
        """Offer the nodes of the run; a run on one node offers none."""
        for name in names[self.nodes.count() - 1 :]:
            self.nodes.addItem(shown(name), name)
        self.nodes.setVisible(self.nodes.count() > 1)

    def say(self, text: str, role: str = "secondary") -> None:
        """Show a message between the controls; `role` is `secondary` or `error`."""
        note = self.note
        if note.text() != text or note.property("role") != role:
            note.setText(text)
            note.setToolTip(plain_tip(text))
            note.setProperty("role", role)
            note.style().polish(note)
            self._place_note()

    def minimumSizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Return a width at which only what is nowhere else has to be there."""
        whole = super().minimumSizeHint()
        return QSize(min(whole.width(), _LEAST), whole.height())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self._smoothing_name.setVisible(self.width() >= _NAMED)
        for button in self._in_menus:
            button.setVisible(self.width() >= _WHOLE)
        self._place_note()

    def _place_note(self) -> None:
        """Place the message between the controls if it fits, else below them."""
        row = self._row
        items = [row.itemAt(at) for at in range(row.count())]
        others = [item for item in items if item is not None and item.widget() is not self.note]
        taken = sum(item.minimumSize().width() + GRID for item in others if not item.isEmpty()) + 4 * GRID
        needed = self.note.fontMetrics().horizontalAdvance(self.note.text())
        below = needed > max(0, self.width() - taken)
        if below == (row.indexOf(self.note) < 0):
            return
        if below:
            row.removeWidget(self.note)
            self._column.addWidget(self.note)
        else:
            self._column.removeWidget(self.note)
            row.insertWidget(row.indexOf(self._weight) + 1, self.note, _ALL)

    def actions_offered(self) -> list[QAction]:
        """Return the actions for menus and the command palette."""
        axes = (self.log_x, self.log_y, self.limits, self.formulas)
        return [self.pause, self.reset, *axes, self.alone, self.metrics]

    def _lay_out(self) -> None:
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(GRID, GRID // 2, GRID, GRID // 2)
        self._column.setSpacing(GRID // 2)
        row = self._row = QHBoxLayout()
        self._column.addLayout(row)
        row.setSpacing(GRID)
        row.addWidget(self._axis)
        self._in_menus = [self._button(each) for each in (self.log_y, self.limits, self.formulas)]
        row.addWidget(self._button(self.log_x))
        for button in self._in_menus:
            row.addWidget(button)
        row.addWidget(self.nodes)
        row.addSpacing(GRID)
        row.addWidget(self._smoothing_name)
        row.addWidget(self._smoothing)
        row.addWidget(self._weight)
        row.addWidget(self.note, _ALL)
        row.addStretch(1)
        for action in (self.pause, self.reset, self.alone, self.metrics):
            row.addWidget(self._button(action))
        row.addWidget(self.export)

    def _button(self, action: QAction) -> QToolButton:
        made = QToolButton()
        made.setDefaultAction(action)
        made.setAccessibleName(action.text())
        made.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        icons = action in (self.pause, self.reset, self.alone, self.metrics)
        made.setToolButtonStyle(
            Qt.ToolButtonStyle.ToolButtonIconOnly if icons else Qt.ToolButtonStyle.ToolButtonTextOnly
        )
        return made

    def _action(self, text: str, name: str, keys: str, tip: str, *, on: bool = False) -> QAction:
        made = QAction(text, self)
        made.setObjectName(name)
        made.setCheckable(on)
        made.setShortcut(QKeySequence(keys))
        made.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        made.setToolTip(f"{tip} ({keys})")
        made.setData("View")  # the menu of the page has to fit on small screens
        return made

    def _draw_icons(self) -> None:
        for action in (self.pause, self.reset, self.alone, self.metrics):
            action.setIcon(icon(action.objectName(), self._theme.palette))
        self.export.setIcon(icon("export", self._theme.palette))

    @staticmethod
    def _named(widget: QWidget, name: str, tip: str) -> None:
        widget.setAccessibleName(name)
        widget.setToolTip(tip)
        widget.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def _pause(self, on: bool) -> None:  # noqa: FBT001 - Qt's signal
        self.pause.setObjectName("resume" if on else "pause")
        self.pause.setText("Follow again" if on else "Pause")
        self._draw_icons()
        self.paused.emit(on)

    def _smooth(self, position: int) -> None:
        self._choose(replace(self._choices, smoothing=weight_at(position)))
        self._say_weight()

    def _say_weight(self) -> None:
        weight = self._choices.smoothing
        text = f"{window_of(weight):,} rows" if self._choices.by_window else f"{weight:.3g}"
        self._weight.setText(text if weight else "off")

    def _choose_window(self, on: bool) -> None:  # noqa: FBT001 - Qt's signal
        self._choose(replace(self._choices, by_window=on))
        self._say_weight()

    def _choose_kind(self, number: int) -> None:
        if _KINDS[number] == self._choices.kind:  # already requested, and not available
            self.show_kind(self._shown_kind, self._choices.kind)
        else:
            self._choose(replace(self._choices, kind=_KINDS[number]))

    def _choose(self, choices: Choices) -> None:
        self._choices = choices
        self.chosen.emit(choices)


def weight_at(position: int) -> float:
    """Return the weight at a slider position from 0 to 100: finer towards 1, where small changes matter
    more.
    """
    return 0.0 if position <= 0 else round(1 - 10 ** (-3 * position / 100), 3 if position > 66 else 2)


def position_of(weight: float) -> int:
    """Return the slider position, 0 to 100, for a weight."""
    return min(range(101), key=lambda position: abs(weight_at(position) - min(weight, MOST_SMOOTHING)))
