"""Grid of all plots of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from PySide6.QtCore import QEvent, QObject, QRect, Qt, QTimer, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QFrame, QMenu, QScrollArea, QStackedWidget, QVBoxLayout, QWidget

from torchdeck.contract.layout import RunLayout
from torchdeck.runs.folders.notes import StepNote
from torchdeck.runs.plots.exchange import Answer, Request
from torchdeck.runs.plots.plot_reader import PlotReader
from torchdeck.runs.plots.x_axis import Across
from torchdeck.runs.view import RunView
from torchdeck_app.bridge.background_loop import Feed
from torchdeck_app.runs.plots.choices import Choices
from torchdeck_app.runs.plots.legend import RunNames
from torchdeck_app.runs.plots.marks import Mark
from torchdeck_app.runs.plots.plot import Plot
from torchdeck_app.runs.plots.plot_menus import PlotMenus
from torchdeck_app.runs.plots.plot_sheet import PlotSheet
from torchdeck_app.runs.plots.toolbar import PlotToolbar
from torchdeck_app.runs.run_panel import RunPanel
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.panel import EmptyState, label

_LOOK_EVERY = 1.0
_LOOK_EVERY_ENDED = 5.0
"""Seconds between two polls of the files of an ended run, for late writes."""
_SAME_TIME = 1e-3
"""Seconds within which two pins are the same."""
_GATHER = 25
"""Milliseconds in which view changes are combined into one request."""


class PlotGrid(RunPanel):
    """Live plots of one run, or of several overlaid."""

    note_given = Signal(object)
    """Emitted with the user's StepNote; without text it is to be removed."""

    def __init__(self, theme: Theme, layout: RunLayout, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._choices = Choices()
        self._zoom: tuple[float, float] | None = None
        self._until: float | None = None
        self._node = ""
        self._pins: tuple[float, ...] = ()
        """Unix times whose values stay in sight, whatever x shows."""
        self._marks: tuple[Mark, ...] = ()
        self._notes: tuple[StepNote, ...] = ()
        self._baseline: tuple[RunLayout, str] | None = None
        self._alone = ""
        """Key of the plot that is shown alone."""
        self._ended = False
        self._entered = False
        self._answer: Answer | None = None
        self.toolbar = PlotToolbar(theme)
        self.menus = PlotMenus(self, self.toolbar.say, self._choose)
        self.sheet = PlotSheet(theme, self._fill_menu)
        self.names = RunNames(theme)
        self._pages = QStackedWidget()
        self._gather = QTimer(self, singleShot=True, interval=_GATHER)
        self._gather.timeout.connect(self._ask)
        self._watch = QTimer(self, interval=500)
        self._watch.timeout.connect(self._tell_waiting)
        self._lay_out()
        self._connect()
        self._feed: Feed[Request, Answer]
        self.set_runs([layout])

    def _lay_out(self) -> None:
        loading = label("Reading the metrics…", role="secondary")
        loading.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._scroll = QScrollArea()
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setWidget(self.sheet)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._empty = EmptyState(
            self._theme, "runs", "No metrics yet", "Plots appear with the first step that is logged."
        )
        for page in (loading, self._empty, self._scroll):
            self._pages.addWidget(page)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.toolbar)
        column.addWidget(self.names)
        column.addWidget(self._pages, 1)
        self._scroll.viewport().installEventFilter(self)

    def _connect(self) -> None:
        self.toolbar.chosen.connect(self._choose)
        self.toolbar.node_chosen.connect(self._choose_node)
        self.toolbar.paused.connect(lambda on: self._feed.follow(on=not on and self._entered))
        self.toolbar.reset_asked.connect(lambda: self.zoom_to(None))
        self.toolbar.metrics_asked.connect(self._open_chooser)
        self.toolbar.limits_asked.connect(self._open_limits)
        self.toolbar.formulas_asked.connect(self._open_formulas)
        menu = QMenu(self.toolbar)
        menu.aboutToShow.connect(lambda: self.menus.fill_export(menu, self.sheet.current(), self._layouts))
        self.toolbar.export.setMenu(menu)
        self.sheet.pointed.connect(self._point)
        self.sheet.zoom_asked.connect(self.zoom_to)
        self.sheet.pin_asked.connect(self._pin)
        self.sheet.enlarged.connect(self.show_alone)
        self.toolbar.alone.toggled.connect(self._toggle_alone)
        self.sheet.focused.connect(self._bring_into_sight)
        self._scroll.verticalScrollBar().valueChanged.connect(self._ask_soon)

    def entered(self) -> None:
        """Called when the panel becomes visible: follow the files."""
        self._entered = True
        self._feed.follow(on=not self.toolbar.pause.isChecked())
        self._watch.start()
        self._ask_soon()

    def left(self) -> None:
        """Called when the panel is hidden: read nothing."""
        self._entered = False
        self._gather.stop()
        self._watch.stop()
        self._feed.follow(on=False)

    def closing(self) -> None:
        """End the reader thread."""
        self.left()
        self._feed.stop()
        self.menus.close()

    def show_view(self, view: RunView) -> None:
        """Show the run's changed state."""
        if view.is_over != self._ended:
            self._ended = view.is_over
            self._feed.set_interval(_LOOK_EVERY_ENDED if self._ended else _LOOK_EVERY)
            self._ask_soon()

    def set_cursor(self, time: float | None) -> None:
        """Show the time cursor at unix `time`, or hide it; `cursor_moved` is not emitted."""
        answer = self._answer
        self.sheet.set_cursor(None if time is None or answer is None else answer.moments.x_at(time))

    def set_marks(self, marks: tuple[Mark, ...]) -> None:
        """Show these markers in the strip under the loss."""
        self._marks = marks
        self._show_marks()

    def set_notes(self, notes: tuple[StepNote, ...]) -> None:
        """Show the user's notes on moments in the strip."""
        self._notes = notes
        self._show_marks()

    def _show_marks(self) -> None:
        notes = (Mark(each.time, each.step, "note", each.text) for each in self._notes)
        self.sheet.set_marks((*self._marks, *notes))

    def set_runs(self, layouts: list[RunLayout], names: Sequence[str] = ()) -> None:
        """Overlay several runs, each in a colour of its own.

        Args:
            layouts: the runs, at least one.
            names: names in the legend. Default: the folders' names.
        """
        self._layouts, self._run_names = list(layouts), list(names)
        self.sheet.has_strip = len(layouts) == 1
        self.names.set_names(names or [layout.root.name for layout in layouts])
        self._zoom = None
        self._pins = ()
        self.sheet.set_pins(())
        self._pages.setCurrentIndex(0)
        self._read()

    def set_baseline(self, layout: RunLayout | None, name: str = "") -> None:
        """Draw another run under the curves; None for none."""
        baseline = None if layout is None or layout in self._layouts else (layout, name)
        if baseline != self._baseline:
            self._baseline = baseline
            self._read()

    def _read(self) -> None:
        """Read the runs from now on, from their beginning."""
        if hasattr(self, "_feed"):
            self._feed.stop()
            self._feed.deleteLater()
        self.toolbar.forget_answer()
        reader = PlotReader(self._layouts, self._run_names, self._baseline)
        self._feed = Feed("plots", reader.answer, _LOOK_EVERY, self)
        self._feed.answered.connect(self._show)
        self._feed.failed.connect(self._fail)
        self._feed.follow(on=self._entered and not self.toolbar.pause.isChecked())
        self._answer = None
        if self._entered:
            self._ask_soon()

    def set_until(self, time: float | None) -> None:
        """Show the plots as of unix `time` (replay); None shows all."""
        if time != self._until:
            self._until = time
            self._ask_soon()

    def zoom_to(self, zoom: tuple[float, float] | None) -> None:
        """Show this range of x in all plots; None for everything."""
        if zoom is not None and not zoom[1] > zoom[0]:
            return
        self._zoom = zoom
        self._place()
        self._ask_soon()

    @property
    def answer(self) -> Answer | None:
        """Return the latest answer of the reader."""
        return self._answer

    @property
    def choices(self) -> Choices:
        """Return the user's choices."""
        return self._choices

    def actions_offered(self) -> Sequence[QAction]:
        """Return the actions: pause, reset the zoom, choose metrics."""
        return self.toolbar.actions_offered()

    def save_state(self) -> dict[str, Any]:
        """Return the user's choices."""
        return self._choices.to_json()

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `save_state`."""
        self._choices = Choices.from_json(state)
        self.toolbar.set_choices(self._choices)
        self._arrange()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if event.type() in (QEvent.Type.Resize, QEvent.Type.Show):
            self.sheet.set_room(self._scroll.viewport().height())
            self._ask_soon()
        return super().eventFilter(watched, event)

    def _ask_soon(self) -> None:
        """Schedule a request; continuous changes such as a pan send requests repeatedly meanwhile."""
        if not self._gather.isActive():
            self._gather.start()

    def _ask(self) -> None:
        if not self._entered:
            return
        self._feed.ask(
            Request(
                self.sheet.in_sight(),
                self._choices.kind,
                self._choices.log_x,
                self._zoom,
                self._choices.smoothing,
                self._choices.by_window,
                self._until,
                self._ended,
                self._node,
                self._choices.formulas,
            )
        )

    def _show(self, answer: Answer) -> None:
        before, self._answer = self._answer, answer
        if before is None or before.kind != answer.kind:
            self._zoom = None if before is not None else self._zoom
            self._show_pins()
        if before is None or before.metrics != answer.metrics:
            self._arrange()
        self.toolbar.set_nodes(answer.nodes)
        self.toolbar.show_kind(answer.kind, answer.request.kind)
        self._pages.setCurrentIndex(2 if answer.metrics else 1)
        self.sheet.show_plots(answer.metrics, answer.plots)
        self._place()
        self.toolbar.show_answer(answer.problems, answer.note)
        if not answer.plots and answer.metrics:
            self._ask_soon()  # their places are known only now

    def _fail(self, error: Exception) -> None:
        self.toolbar.forget_answer()
        self.toolbar.say(f"Metrics cannot be read: {error}", "error")

    def _place(self) -> None:
        """Move all plots to the requested range of x."""
        answer = self._answer
        shown = self._zoom or (answer.extent if answer is not None else None)
        if answer is None or shown is None:
            return
        log = self._choices.log_x and answer.kind != "wall" and shown[0] > 0
        self.sheet.set_across(Across(answer.kind, *shown, log), answer.moments, zoomed=self._zoom is not None)

    def _arrange(self) -> None:
        if self._answer is not None:
            shown = self._choices.on_board(self._answer.metrics)
            alone = [metric for metric in shown if metric.key == self._alone]
            self.sheet.set_alone(self._alone if alone else "")
            self.sheet.arrange(alone or shown, self._choices.y_axis)
            self._ask_soon()

    def _pin(self, x: float) -> None:
        """Pin the values at x in all plots, or remove that pin."""
        answer = self._answer
        time = None if answer is None else answer.moments.time_at(x)
        if time is not None:
            near = [pin for pin in self._pins if abs(pin - time) < _SAME_TIME]
            kept = tuple(pin for pin in self._pins if pin not in near)
            self._pins = kept if near else (*kept, time)
            self._show_pins()

    def _ask_note(self, plot: Plot) -> None:
        if self._answer is not None:
            notes = self.sheet.strip.places()
            self.menus.ask_note(plot, self._answer, notes, self.note_given.emit)

    def unpin(self) -> None:
        """Remove all pins."""
        self._pins = ()
        self._show_pins()

    def _show_pins(self) -> None:
        if self._answer is not None:
            places = (self._answer.moments.x_at(pin) for pin in self._pins)
            self.sheet.set_pins(tuple(x for x in places if x is not None))

    def show_alone(self, key: str | None) -> None:
        """Give one plot the room of all, with a legend; None shows all again."""
        self._alone = key or ""
        self.toolbar.show_alone(on=bool(self._alone))
        self._arrange()

    def _toggle_alone(self, on: bool) -> None:  # noqa: FBT001 - Qt's signal
        plot = self.sheet.current()
        self.show_alone(plot.plotted.key if on and plot is not None else None)

    def _choose(self, choices: Choices) -> None:
        if choices.kind != self._choices.kind or choices.log_x != self._choices.log_x:
            self._zoom = None
        self._choices = choices
        self.toolbar.set_choices(choices)
        self._arrange()
        self._ask_soon()

    def _choose_node(self, node: str) -> None:
        self._node = node
        self._ask_soon()

    def _point(self, x: float | None) -> None:
        self.sheet.set_cursor(x)
        answer = self._answer
        self.cursor_moved.emit(None if x is None or answer is None else answer.moments.time_at(x))

    def _open_chooser(self) -> None:
        if self._answer is not None:
            self.menus.choose_metrics(self._answer.metrics, self._choices)

    def _open_formulas(self) -> None:
        metrics = () if self._answer is None else self._answer.metrics
        self.menus.choose_formulas(metrics, self._choices)

    def _open_limits(self) -> None:
        plot = self.sheet.current()
        if plot is not None:
            self.menus.choose_limits(plot, self._choices)

    def _fill_menu(self, plot: Plot, menu: QMenu) -> None:
        more: list[tuple[str, Callable[[], object]]] = []
        if plot.cursor_x is not None:
            more.append(("Pin or unpin the values at the crosshair (P)", plot.vb.pin_asked.emit))
            if len(self._layouts) == 1:
                more.append(("Note at the crosshair…", lambda: self._ask_note(plot)))
        if self._pins:
            more.append(("Remove all pins", self.unpin))
        more.append(("Plot a formula…", self._open_formulas))
        self.menus.fill(plot, menu, self._choices, self._layouts, more)

    def _bring_into_sight(self, place: QRect) -> None:
        self._scroll.ensureVisible(place.left(), place.bottom(), 0, 0)
        self._scroll.ensureVisible(place.left(), place.top(), 0, 0)

    def _tell_waiting(self) -> None:
        seconds = self._feed.seconds_under_way
        if seconds > 1:
            self.toolbar.say(f"Reading the metrics for {seconds:.0f} s…")
        elif self.toolbar.note.text().startswith("Reading the metrics for"):
            self.toolbar.say(self._answer.note if self._answer is not None else "")
