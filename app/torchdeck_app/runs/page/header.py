"""Header of a run's page: state, current activity, progress and actions."""

from __future__ import annotations

import time
from collections.abc import Collection

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from torchdeck.contract.plan.launch_plan import WATCHED
from torchdeck.quantities import metric
from torchdeck.runs import reasons
from torchdeck.runs.folders.origin import Origin
from torchdeck.runs.goodput.texts import energy, goodput_lines
from torchdeck.runs.goodput.uses import Goodput, Use
from torchdeck.runs.training_progress import TrainingProgress
from torchdeck.runs.unsaved import lost_at_stop, what_is_lost
from torchdeck.runs.view import RunView
from torchdeck_app.runs.abilities import RunCommand, abilities, is_unfollowed, last_known
from torchdeck_app.runs.page.activity_texts import doing, facts, rank_lines
from torchdeck_app.runs.page.node_links import CodeBars, NodeLinks
from torchdeck_app.runs.run_watch import RunSeen
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.icons import icon
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.announcements import News
from torchdeck_app.widgets.inputs import set_enabled, set_visible
from torchdeck_app.widgets.labels import ElidedLabel, SteadyLabel, control_text, plain_tip
from torchdeck_app.widgets.panel import GRID, label
from torchdeck_app.widgets.state_badge import StateBadge, look_of_run

_NARROW = 75 * GRID
"""Pixels below which buttons with an icon lose their text to leave room for the run's name."""
_AGES = 1000
"""Milliseconds between two updates of the age of data, for a run that is not followed."""
_STEPS = 1000
"""Steps of the progress bar."""
_TIPS = {
    RunCommand.STOP: "Finish the step, save a checkpoint, exit (Ctrl+.)",
    RunCommand.STOP_NOW: "End every process at once (Ctrl+Shift+.)",
    RunCommand.RESUME: "Continue from the newest complete checkpoint (Ctrl+R)",
    RunCommand.ATTACH: "Enter the logins of its nodes, and follow it from here again (Ctrl+Shift+A)",
    RunCommand.END_WATCH: "Leave the training alone, and keep what was read of it",
    RunCommand.STACKS: "Show the current line of every rank, and which one blocks the others (Ctrl+Alt+K)",
    RunCommand.PROFILE: "Record what ranks do for 5 s, for Perfetto; the run continues (Ctrl+Alt+P)",
    RunCommand.CLONE: "Open this run's configuration in Launch, to start another run (Ctrl+D)",
}

_AT_TIMES = (RunCommand.ATTACH, RunCommand.END_WATCH, RunCommand.STACKS, RunCommand.PROFILE)
"""Buttons that are there only while they have a use."""
_ALWAYS = (RunCommand.STOP, RunCommand.STOP_NOW, RunCommand.RESUME, RunCommand.CLONE)


class RunHeader(QFrame):
    """Header that shows one run and emits its actions."""

    asked = Signal(object)
    """A RunCommand."""
    origin_asked = Signal(str)
    """Emitted with the id of the run that this one resumed from."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "panel")
        self.setAccessibleName("Current activity")
        self._theme = theme
        self._again = QTimer(self)
        self._again.setInterval(_AGES)
        self._badge = StateBadge(theme)
        self._badge.setFont(font(Type.HEADING))
        self._news = News(self)
        self._name = ElidedLabel()
        self._name.setFont(font(Type.HEADING))
        self._doing = ElidedLabel()
        self._facts = SteadyLabel()
        self._facts.setProperty("role", "secondary")
        self.origin = QToolButton()
        self.origin.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        link = self.origin.font()
        link.setUnderline(True)
        self.origin.setFont(link)
        self.origin.hide()
        self._origin_id = ""
        self._latest: tuple[RunSeen, Collection[str]] | None = None
        self._goodput: Goodput | None = None
        self.origin.clicked.connect(lambda: self.origin_asked.emit(self._origin_id))
        self._loss = SteadyLabel()
        self._loss.setFont(font(Type.NUMBER))
        self._loss.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._loss_width = self._loss.fontMetrics().horizontalAdvance("8.888e-88") + 2
        self._loss_name = label("loss", role="secondary")
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setFixedHeight(GRID)
        self._bar.setRange(0, _STEPS)
        self._bar.setAccessibleName("Progress")
        kept = self._bar.sizePolicy()
        kept.setRetainSizeWhenHidden(True)
        self._bar.setSizePolicy(kept)
        self._warnings = label("", role="warning", wrap=True)
        self._warnings.hide()
        self.links = NodeLinks(theme)
        self.code = CodeBars()
        self.buttons = {what: self._button(what) for what in (*_AT_TIMES, *_ALWAYS)}
        for what in _AT_TIMES:
            self.buttons[what].hide()
        self._lay_out()
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self._again.timeout.connect(self._say_age)
        theme.changed.connect(self._draw_icons)
        self._draw_icons()

    def show_run(self, seen: RunSeen, under_way: Collection[str]) -> None:
        """Show the run's current state and its pending requests."""
        view, progress = seen.view, seen.progress
        look = look_of_run(view)
        self._badge.set_look(look)
        self._news.tell(view.id, f"{view.name}: {look.word}", urgent=look.colour == "bad")
        self._name.setText(view.name)
        self._name.setToolTip(plain_tip(f"{view.name}\n{view.id}"))
        self._latest = (seen, under_way)
        self._say_doing(seen, under_way)
        # a run whose nodes report nothing causes no updates
        if is_unfollowed(view) and not self._again.isActive():
            self._again.start()
        elif not is_unfollowed(view):
            self._again.stop()
        self.links.show_links(seen.links, is_followed=view.controller_alive)
        self.code.show_sent(() if view.is_over or seen.is_gone else seen.sent_code)
        self._show_facts()
        loss = progress.loss if progress is not None else None
        self._loss.setText("" if loss is None else metric(loss))
        needed = self._loss.fontMetrics().horizontalAdvance(self._loss.text())
        self._loss.setFixedWidth(max(self._loss_width, needed + 2))
        self._loss.setToolTip("" if loss is None else f"loss {loss!r}")
        self._show_validation(progress)
        self._loss_name.setVisible(loss is not None)
        self._show_progress(seen)
        self._show_origin(seen.origin)
        warnings = _warnings(seen)
        self._warnings.setText("\n".join(warnings))
        self._warnings.setVisible(bool(warnings))
        self._enable(seen, under_way)

    def show_goodput(self, found: Goodput | None) -> None:
        """Show the share of the time that trained; None if it is unknown."""
        self._goodput = found
        self._show_facts()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        for what, button in self.buttons.items():
            named = self.width() >= _NARROW or button.icon().isNull()
            button.setText(_word(what) if named else "")

    @property
    def state_word(self) -> str:
        """Return the state shown; empty before the first poll."""
        return self._badge.accessibleName()

    @property
    def doing_now(self) -> str:
        """Return the current activity shown."""
        return self._doing.text()

    @property
    def facts_shown(self) -> str:
        """Return the facts below the activity."""
        return self._facts.text()

    @property
    def warnings(self) -> str:
        """Return the warnings, one per line; empty if there are none."""
        return self._warnings.text()

    def _show_facts(self) -> None:
        if self._latest is None:
            return
        seen, _ = self._latest
        text, found = facts(seen.view, seen.progress, time.time()), self._goodput
        tip = text
        if found is not None:
            short = f"goodput {100.0 * found.share(Use.PRODUCTIVE):.0f} %{energy(found)}"
            text = f"{text}, {short}" if text else short
            tip = "\n".join((tip, *goodput_lines(found)))
        self._facts.setText(text)
        self._facts.setToolTip(plain_tip(tip))

    def _say_doing(self, seen: RunSeen, under_way: Collection[str]) -> None:
        view = seen.view
        last = last_known(view, time.time())
        self._badge.setToolTip(plain_tip(last or view.why))
        now = _asked(view, under_way) or last or doing(view, seen.sent_code)
        now = "This run's directory was removed" if seen.is_gone else now
        if now != self._doing.text():
            self._doing.setText(now)
        self._doing.setToolTip(plain_tip(rank_lines(view) or now))

    def _say_age(self) -> None:
        if self._latest is not None and self.isVisible():
            self._say_doing(*self._latest)

    def _show_validation(self, progress: TrainingProgress | None) -> None:
        """Write the validation loss below the name of the number, which keeps its width while it changes."""
        heldout = progress.validation_loss if progress is not None else None
        self._loss_name.setText("loss" if heldout is None else f"loss\nvalidation {metric(heldout)}")
        self._loss_name.setToolTip("" if heldout is None else f"validation loss {heldout!r}")
        below = Qt.AlignmentFlag.AlignBottom if heldout is None else Qt.AlignmentFlag.AlignVCenter
        self._loss_name.setAlignment(Qt.AlignmentFlag.AlignLeft | below)
        wanted = self._loss_name.fontMetrics().horizontalAdvance("validation 8.8888 ")
        self._loss_name.setMinimumWidth(0 if heldout is None else wanted)

    def _show_progress(self, seen: RunSeen) -> None:
        step = seen.progress.step if seen.progress is not None else None
        total = seen.progress.total if seen.progress is not None else None
        known = step is not None and bool(total)
        self._bar.setVisible(known)
        if step is not None and total:
            self._bar.setValue(round(_STEPS * min(1.0, step / total)))
            self._bar.setToolTip(f"step {step:,} of {total:,}: {100 * step / total:.1f} %")

    def _show_origin(self, origin: Origin | None) -> None:
        self.origin.setVisible(origin is not None)
        if origin is not None and origin.run_id != self._origin_id:
            self._origin_id = origin.run_id
            step = "" if origin.step is None else f"step {origin.step:,} of "
            self.origin.setText(control_text(f"Continues from {step}{origin.name}"))
            self.origin.setAccessibleName(f"Show the run that this one continues from, {origin.run_id}")
            tip = f"It began with a checkpoint of {origin.run_id}; press to show that run"
            self.origin.setToolTip(plain_tip(tip))

    def _enable(self, seen: RunSeen, under_way: Collection[str]) -> None:
        able = abilities(seen.view, under_way, is_left_alone=seen.is_left_alone)
        # without a run to attach to, the other widgets get the space
        attaches = not seen.is_gone and (not able.attach or RunCommand.ATTACH in under_way)
        set_visible(self.buttons[RunCommand.ATTACH], self, on=attaches)
        is_watched = seen.view.kind == WATCHED
        for what in (RunCommand.STOP, RunCommand.STOP_NOW, RunCommand.RESUME, RunCommand.CLONE):
            set_visible(self.buttons[what], self, on=not seen.view.is_foreign)
        set_visible(self.buttons[RunCommand.END_WATCH], self, on=is_watched and not seen.view.is_over)
        for what in (RunCommand.STACKS, RunCommand.PROFILE):
            set_visible(self.buttons[what], self, on=bool(seen.view.hangs or seen.view.stragglers))
        for what, button in self.buttons.items():
            why = "the run's directory was removed" if seen.is_gone else able.why_not(what)
            set_enabled(button, self, on=not why)
            more = f"Not now: {why}" if why else ""
            if what == RunCommand.STOP_NOW and not why:
                lost = what_is_lost(seen.view, seen.progress)
                more = f"{lost[:1].upper()}{lost[1:]}"
            if what == RunCommand.STOP and not why:
                more = lost_at_stop(seen.view, seen.progress)
            button.setToolTip(plain_tip(f"{_TIPS[what]}\n{more}") if more else _TIPS[what])

    def _button(self, what: RunCommand) -> QPushButton:
        button = QPushButton(_word(what))
        button.setAccessibleName(f"{button.text()} {'to ' if what == RunCommand.ATTACH else ''}this run")
        button.clicked.connect(lambda: self.asked.emit(what))
        button.setEnabled(False)
        button.setToolTip(_TIPS[what])
        role = {RunCommand.STOP_NOW: "destructive", RunCommand.ATTACH: "primary"}.get(what)
        if role is not None:
            button.setProperty("role", role)
        return button

    def _lay_out(self) -> None:
        first = QHBoxLayout()
        first.setSpacing(GRID)
        first.addWidget(self._badge)
        first.addWidget(self._name, 1)
        for button in self.buttons.values():
            first.addWidget(button)
        words = QVBoxLayout()
        words.setSpacing(2)
        now = QHBoxLayout()
        now.setSpacing(GRID)
        now.addWidget(self._doing, 1)
        now.addWidget(self.origin)
        words.addLayout(now)
        words.addWidget(self._facts)
        second = QHBoxLayout()
        second.setSpacing(GRID)
        second.addLayout(words, 1)
        second.addWidget(self._loss)
        second.addWidget(self._loss_name)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, GRID, 2 * GRID, GRID)
        column.setSpacing(4)
        column.addLayout(first)
        column.addLayout(second)
        column.addWidget(self.links)
        column.addWidget(self.code)
        column.addWidget(self._bar)
        column.addWidget(self._warnings)

    def _draw_icons(self) -> None:
        for what, name in (
            (RunCommand.STOP, "stop"),
            (RunCommand.RESUME, "resume"),
            (RunCommand.CLONE, "copy"),
        ):
            self.buttons[what].setIcon(icon(name, self._theme.palette))


def _word(what: RunCommand) -> str:
    return what.words.capitalize()


def _warnings(seen: RunSeen) -> list[str]:
    """Return the run's warnings; advice about unfollowed nodes appears once, worded for the window."""
    warnings = [*seen.view.warnings, *seen.damaged_metrics]
    others = [each for each in warnings if reasons.UNFOLLOWED not in each]
    if not seen.is_left_alone or len(others) == len(warnings):
        return warnings
    return [
        *others,
        "This run is not followed here. Attach follows it, and asks for the logins of its nodes.",
    ]


def _asked(view: RunView, under_way: Collection[str]) -> str:
    """Return the pending requests as text."""
    if RunCommand.ATTACH in under_way:
        return "attaching: connecting to its nodes"
    waiting = {*under_way, *view.requests_waiting}
    for what in (
        RunCommand.STOP_NOW,
        RunCommand.STOP,
        RunCommand.RESUME,
        RunCommand.STACKS,
        RunCommand.PROFILE,
    ):
        if what in waiting:
            return f"{what.words}: waiting for the run to respond..."
    return ""
