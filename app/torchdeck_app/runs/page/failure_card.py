"""Card at the top of a failed run: the failed rank, its error, the other ranks' errors and advice."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from torchdeck.runs.failure import FailureReport
from torchdeck.runs.failures.code_place import place_in
from torchdeck.shown_text import shown
from torchdeck_app.runs.abilities import Abilities, RunCommand
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.icons import icon
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.announcements import announce
from torchdeck_app.widgets.help import HelpLink
from torchdeck_app.widgets.inputs import set_enabled
from torchdeck_app.widgets.labels import ElidedLabel, PlainLabel, plain_tip
from torchdeck_app.widgets.panel import GRID, label

_NARROW = 75 * GRID
"""Pixels below which actions that the run's header offers too are hidden in favour of the headline."""
_ROWS = 14
"""Maximum lines of a traceback shown at once."""


_TIPS = {
    "resume": "Continue from the newest complete checkpoint (Ctrl+R)",
    "clone": "Open this run's configuration in Launch, to change it (Ctrl+D)",
    "log": "Show the log at the first error",
    "source": "Open your editor at the last line of your own code; a double-click on a frame opens that one",
}
_GONE = "the run's directory was removed"


class TracebackText(QPlainTextEdit):
    """Traceback of which a double-click on a frame chooses its place."""

    frame_chosen = Signal(object)
    """Emitted with a CodePlace."""

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        super().mouseDoubleClickEvent(event)
        place = place_in(self.cursorForPosition(event.position().toPoint()).block().text())
        if place is not None:
            self.frame_chosen.emit(place)


class FailureCard(QFrame):
    """Card that shows a FailureReport and can be collapsed to its headline."""

    command_asked = Signal(object)
    """Emitted with a RunCommand."""
    log_asked = Signal()
    source_asked = Signal(object)
    """Emitted with a CodePlace, to open it in the editor."""
    folded = Signal(bool)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "panel")
        self.setAccessibleName("Why the run failed")
        self._theme = theme
        self.report: FailureReport | None = None
        self._sign = PlainLabel()
        self._headline = ElidedLabel()
        self._headline.setFont(font(Type.HEADING))
        self._fold = QToolButton()
        self._fold.setCheckable(True)
        self._fold.toggled.connect(self._fold_away)
        self._message = _plain()
        self.traceback = TracebackText()
        self.traceback.frame_chosen.connect(self.source_asked)
        self.traceback.setReadOnly(True)
        self.traceback.setFont(font(Type.MONO))
        self.traceback.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.traceback.setAccessibleName("Traceback")
        self.traceback.setTabChangesFocus(True)
        self._others_title = label("What the other ranks saw", Type.HEADING)
        self._others = _plain()
        self._others.setFont(font(Type.MONO))
        self._advice_title = label("", Type.HEADING)
        self._advice_line = _plain("secondary")
        self._advice = _plain()
        self.help = HelpLink()
        self.buttons = {
            "resume": self._button("Resume", _TIPS["resume"]),
            "clone": self._button("Clone", _TIPS["clone"]),
            "log": self._button("Show log", _TIPS["log"]),
            "source": self._button("Open in editor", _TIPS["source"]),
            "copy": self._button("Copy", "Copy headline and traceback"),
        }
        self._body = self._scrolled()
        self._lay_out()
        theme.changed.connect(self._draw)
        self._draw()
        self.hide()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        for what in ("resume", "clone"):
            self.buttons[what].setVisible(self.width() >= _NARROW)

    def show_report(self, report: FailureReport | None) -> None:
        """Show the failure; None if there is none."""
        is_news = report is not None and report != self.report
        self.report = report
        self.setVisible(report is not None)
        if report is None:
            return
        self._headline.setText(report.headline)
        self._headline.setToolTip(plain_tip(report.headline))
        if is_news:
            announce(self, report.headline, urgent=True)
        self._message.setText(report.message)
        self._message.setVisible(bool(self._message.text()))
        self.traceback.setPlainText(shown(report.traceback))
        self.traceback.setVisible(bool(report.traceback))
        lines = min(_ROWS, report.traceback.count("\n") + 1)
        self.traceback.setFixedHeight(lines * self.traceback.fontMetrics().lineSpacing() + 3 * GRID)
        bar = self.traceback.verticalScrollBar()
        bar.setValue(bar.maximum())
        self._others.setText("\n".join(report.others))
        for widget in (self._others_title, self._others):
            widget.setVisible(bool(report.others))
        self.buttons["source"].setVisible(report.place is not None)
        self._show_advice(report)
        tells = bool(report.message or report.traceback or report.others or report.advice)
        self._fold.setVisible(tells)
        if not tells:  # an open card would only hide the plots
            self.set_folded(folded=True)

    def enable(self, able: Abilities, *, is_gone: bool = False) -> None:
        """Enable the actions the run allows now; none if its directory was removed."""
        for what in ("clone", "log", "source"):
            set_enabled(self.buttons[what], self, on=not is_gone)
            self.buttons[what].setToolTip(f"Not now: {_GONE}" if is_gone else _TIPS[what])
        if is_gone:
            able = Abilities(resume=_GONE)
        set_enabled(self.buttons["resume"], self, on=not able.resume)
        self.buttons["resume"].setToolTip(
            plain_tip(f"Not now: {able.resume}") if able.resume else _TIPS["resume"]
        )

    def set_folded(self, *, folded: bool) -> None:
        """Collapse to the headline, or expand."""
        self._fold.setChecked(folded)

    @property
    def is_folded(self) -> bool:
        return self._fold.isChecked()

    def wanted_height(self) -> int:
        """Return the height in pixels that shows everything at the current width."""
        inner = self._inner
        margins = self.contentsMargins()
        head = self.sizeHint().height() - self._body.sizeHint().height()
        layout = inner.layout()
        width = self.width() - 6 * GRID
        body = layout.heightForWidth(width) if layout is not None and layout.hasHeightForWidth() else 0
        return head + max(body, inner.minimumSizeHint().height()) + margins.top() + margins.bottom()

    @property
    def advice_title(self) -> str:
        """Return the short title of the advice."""
        return self._advice_title.text()

    def _show_advice(self, report: FailureReport) -> None:
        advice = report.advice
        for widget in (self._advice_title, self._advice_line, self._advice, self.help):
            widget.setVisible(advice is not None)
        if advice is not None:
            self._advice_title.setText(f"What to do: {advice.advice.title}")
            line = f"{advice.where}: {advice.line}"
            self._advice_line.setText(line)
            self._advice_line.setVisible(advice.line not in report.message)
            paragraphs = advice.advice.text.replace("`", "").split("\n\n")
            self._advice.setText("\n\n".join(" ".join(each.split()) for each in paragraphs))
            self.help.set_page(advice.advice.page)

    def _fold_away(self, folded: bool) -> None:  # noqa: FBT001 - a slot of Qt's
        self._body.setVisible(not folded)
        self._draw()
        self.folded.emit(folded)

    def _ask_source(self) -> None:
        if self.report is not None and self.report.place is not None:
            self.source_asked.emit(self.report.place)

    def _copy(self) -> None:
        if self.report is not None:
            parts = (self.report.headline, self.report.message, self.report.traceback)
            QGuiApplication.clipboard().setText("\n".join(part for part in parts if part))

    def _button(self, text: str, tip: str) -> QPushButton:
        button = QPushButton(text)
        button.setToolTip(tip)
        button.setAccessibleName(f"{text}: the failed run")
        return button

    def _scrolled(self) -> QScrollArea:
        self._inner = inner = QWidget()
        column = QVBoxLayout(inner)
        column.setContentsMargins(0, 0, GRID, 0)
        column.setSpacing(GRID)
        for widget in (
            self._message,
            self._advice_title,
            self._advice_line,
            self._advice,
        ):
            column.addWidget(widget)
        row = QHBoxLayout()
        row.addWidget(self.help)
        row.addWidget(self.buttons["source"])
        row.addStretch(1)
        column.addLayout(row)
        column.addWidget(self.traceback)
        column.addWidget(self._others_title)
        column.addWidget(self._others)
        column.addStretch(1)
        area = QScrollArea()
        area.setWidget(inner)
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.viewport().setAutoFillBackground(False)
        inner.setAutoFillBackground(False)
        return area

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setSpacing(GRID)
        head.addWidget(self._sign)
        head.addWidget(self._headline, 1)
        for what, button in self.buttons.items():
            if what != "source":  # it belongs to the traceback, and the headline needs the room
                head.addWidget(button)
        self.buttons["resume"].clicked.connect(lambda: self.command_asked.emit(RunCommand.RESUME))
        self.buttons["clone"].clicked.connect(lambda: self.command_asked.emit(RunCommand.CLONE))
        self.buttons["log"].clicked.connect(self.log_asked)
        self.buttons["source"].clicked.connect(self._ask_source)
        self.buttons["copy"].clicked.connect(self._copy)
        head.addWidget(self._fold)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, GRID, 2 * GRID, GRID)
        column.setSpacing(GRID)
        column.addLayout(head)
        column.addWidget(self._body, 1)

    def _draw(self) -> None:
        self._sign.setText("✕")
        self._sign.setStyleSheet(f"color: {self._theme.palette.bad};")
        self._fold.setText("Expand" if self.is_folded else "Collapse")
        self._fold.setToolTip(
            "Show the whole card" if self.is_folded else "Collapse the card: plots and logs are behind it"
        )
        self._fold.setAccessibleName("Collapse the failure card")
        self.buttons["resume"].setIcon(icon("resume", self._theme.palette))
        self.buttons["clone"].setIcon(icon("copy", self._theme.palette))


def _plain(role: str = "") -> QLabel:
    """Create a plain, selectable label for text from a file."""
    made = label("", role=role, wrap=True)
    made.setTextInteractionFlags(
        Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
    )
    return made
