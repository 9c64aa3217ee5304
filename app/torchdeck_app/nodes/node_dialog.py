"""Dialog that adds or changes a node: its fields on the left, the test result on the right."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from torchdeck.config.problems import ConfigError, undotted
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.inventory.problems import made_entry
from torchdeck.nodes.inventory.schema import NodeEntry, NodeInventory
from torchdeck.shown_text import shown
from torchdeck.use_cases.nodes.inventory import add_node, replace_node
from torchdeck.use_cases.nodes.node_trial import KEY, NAMES, Status, Step, try_node
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.nodes.entry_form import EntryForm
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.palette import ColourName
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.dialogs import begin_with
from torchdeck_app.widgets.help import ErrorLine, HelpLink, page_of
from torchdeck_app.widgets.inputs import set_visible
from torchdeck_app.widgets.labels import WrappedText
from torchdeck_app.widgets.panel import GRID, label

_TRYING = "Testing …"


class NodeDialog(QDialog):
    """Dialog that writes the node inventory when accepted; a node that does not respond may be saved too."""

    saved = Signal(str)
    """Emitted with the node's name after it was written to the inventory."""

    def __init__(
        self,
        theme: Theme,
        operations: Operations,
        logins: Logins,
        node_inventory: NodeInventory,
        name: str = "",
        parent: QWidget | None = None,
    ) -> None:
        """Args:
        theme: theme of the window.
        operations: runs writing the inventory.
        logins: connects to nodes.
        book: the current inventory.
        name: the node to change; empty for a new one.
        parent: Qt parent.
        """
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(f"Edit {shown(name)}" if name else "Add a node")
        self._operations, self._logins, self._node_inventory, self._old = (
            operations,
            logins,
            node_inventory,
            name,
        )
        self._is_saving = False
        self.name = QLineEdit(name)
        self.name.setReadOnly(bool(name))
        self.name.setPlaceholderText("name in run files, such as gpu0")
        entry = node_inventory.nodes.get(name)
        self.form = EntryForm(self.name, {} if entry is None else entry.model_dump(exclude_defaults=True))
        self.steps = StepList(theme)
        self.test = NodeTest(logins, self)
        self._error = ErrorLine()
        self.buttons = QDialogButtonBox(
            QDialogButtonBox.StandardButton.Save | QDialogButtonBox.StandardButton.Cancel
        )
        self.buttons.accepted.connect(self.save)
        self.buttons.rejected.connect(self.reject)
        self._lay_out()
        self._connect()
        begin_with(self, 960, 680)
        self._look()

    @property
    def save_button(self) -> Any:
        """Return the save button, enabled once the input is a valid node."""
        return self.buttons.button(QDialogButtonBox.StandardButton.Save)

    def entry(self) -> NodeEntry | None:
        """Return the input as an entry; None if it is not a valid node, which the fields show."""
        name = self.name.text().strip()
        problems: dict[str, str] = {}
        if not self._old and (name in self._node_inventory.nodes or name in self._node_inventory.groups):
            problems["name"] = "This name is taken"
        try:
            made = made_entry(name, self.form.values())
        except ConfigError as error:
            for problem in error.problems:
                path = undotted(problem.path)
                key = str(path[2]) if len(path) > 2 else "address" if "address" in problem.wrong else "name"
                wrong = problem.wrong[:1].upper() + problem.wrong[1:]
                problems.setdefault(key, f"{wrong}. Expected: {problem.right}")
            made = None
        self.form.show_problems(problems)
        return None if problems else made

    def save(self) -> None:
        """Write the input to the inventory and close."""
        entry = self.entry()
        if entry is None or self._is_saving:
            return
        self._is_saving = True
        name, home = self.name.text().strip(), self._logins.home
        self.save_button.setEnabled(False)

        def write(_progress: object, _cancel: object) -> None:
            if self._old:
                replace_node(home, name, entry)
            else:
                add_node(home, name, entry.model_dump(exclude_defaults=True))

        self._operations.run(
            "writing the node inventory",
            write,
            done=lambda _none: self._saved(name),
            failed=self._refused,
        )

    def done(self, result: int) -> None:
        self.test.stop()
        super().done(result)

    def _lay_out(self) -> None:
        area = QScrollArea()
        area.setAccessibleName("Fields of the node")
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setWidgetResizable(True)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setWidget(self.form)
        steps = QScrollArea()
        steps.setAccessibleName("Test results")
        steps.setFrameShape(QFrame.Shape.NoFrame)
        steps.setWidgetResizable(True)
        steps.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        steps.setWidget(self.steps)
        both = QHBoxLayout()
        both.setSpacing(3 * GRID)
        both.addWidget(area, 3)
        both.addWidget(steps, 2)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(GRID)
        column.addLayout(both, 1)
        column.addWidget(self._error)
        column.addWidget(self.buttons)

    def _connect(self) -> None:
        self.form.changed.connect(self._look)
        self.test.begun.connect(lambda: self.steps.begin(_TRYING))
        self.test.stepped.connect(self.steps.show_step)
        self.test.over.connect(self.steps.end)
        self.steps.ask_wanted.connect(self.test.ask)

    def _look(self) -> None:
        """Validate the input after each edit."""
        entry = self.entry()
        self.save_button.setEnabled(entry is not None and not self._is_saving)
        if entry is None:
            self.steps.clear()
        self.test.want(self.name.text().strip(), entry)

    def _saved(self, name: str) -> None:
        self.saved.emit(name)
        self.accept()

    def _refused(self, error: Exception) -> None:
        self._is_saving = False
        self.save_button.setEnabled(True)
        self._error.say(f"The node inventory was not changed: {error}", page_of(error))


# Tests a node while it is edited; only results of the newest test are reported.

DEBOUNCE = 700
"""Milliseconds without an edit before a test starts."""
LIMIT = 8.0
"""Seconds to connect, and seconds to respond, per test."""


class NodeTest(QObject):
    """Test runner with a thread per test: one waiting for a wrong address does not delay the next."""

    begun = Signal()
    stepped = Signal(object)
    """Emitted with each Step of the newest test."""
    over = Signal()
    """Emitted when the newest test has ended."""
    _arrived = Signal(int, object)

    def __init__(self, logins: Logins, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._logins = logins
        self._newest = 0
        self._wanted: tuple[str, NodeEntry] | None = None
        self._clock = QTimer(self)
        self._clock.setSingleShot(True)
        self._clock.timeout.connect(lambda: self._begin(self._logins.quiet))
        self._arrived.connect(self._deliver, Qt.ConnectionType.QueuedConnection)

    def want(self, name: str, entry: NodeEntry | None) -> None:
        """Schedule a test without prompting; None: the input is not a valid node and nothing is tested."""
        wanted = None if entry is None else (name, entry)
        if wanted == self._wanted:
            return
        self._wanted = wanted
        self._newest += 1
        if wanted is None:
            self._clock.stop()
            self.over.emit()
        else:
            self._clock.start(DEBOUNCE)

    def ask(self) -> None:
        """Test now; the user may be prompted for missing input."""
        self._clock.stop()
        self._logins.ask_again()
        self._begin(self._logins.asking)

    def stop(self) -> None:
        """Report nothing more."""
        self._clock.stop()
        self._newest += 1

    def _begin(self, connector: Connector) -> None:
        if self._wanted is None:
            return
        self._newest += 1
        number, (name, entry) = self._newest, self._wanted
        self.begun.emit()
        threading.Thread(
            target=lambda: _carry_out(lambda step: self._arrived.emit(number, step), name, entry, connector),
            name=f"trying {name}",
            daemon=True,
        ).start()

    def _deliver(self, number: int, step: Step | None) -> None:
        if number != self._newest:
            return
        if step is None:
            self.over.emit()
        else:
            self.stepped.emit(step)


def _carry_out(
    tell: Callable[[Step | None], None], name: str, entry: NodeEntry, connector: Connector
) -> None:
    with suppress(RuntimeError):  # the dialog is gone
        try_node(name, entry, connector, LIMIT, tell)
        tell(None)


_LOOKS: Mapping[Status, tuple[str, ColourName, str]] = {
    "waiting": ("◷", "quiet", "not tested yet"),
    "ok": ("✓", "good", "passed"),
    "warning": ("⚠", "warn", "warning"),
    "failed": ("✕", "bad", "wrong"),
}
_RUNNING: tuple[str, ColourName, str] = ("●", "accent", "testing")
_IDLE = "Torchdeck tests the node as you type. Each step below shows its result."


class StepList(QWidget):
    """List of steps in fixed positions; untested ones are shown as waiting."""

    ask_wanted = Signal()
    """Emitted to test again and prompt the user for missing input."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._steps: dict[int, Step] = {}
        self._is_trying = False
        self._said = label(_IDLE, role="secondary", wrap=True)
        self._signs = [label("") for _ in NAMES]
        self._sentences = [WrappedText("secondary") for _ in NAMES]
        self.ask_button = QPushButton()
        self.ask_button.clicked.connect(self.ask_wanted)
        self.help = HelpLink()
        grid = QGridLayout()
        grid.setHorizontalSpacing(GRID)
        grid.setVerticalSpacing(4)
        grid.setColumnStretch(1, 1)
        for at, name in enumerate(NAMES):
            top = Qt.AlignmentFlag.AlignTop
            grid.addWidget(self._signs[at], 2 * at, 0, top)
            grid.addWidget(label(name), 2 * at, 1, top)
            grid.addWidget(self._sentences[at], 2 * at + 1, 1, top)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID)
        column.addWidget(label("Does it work?", Type.HEADING))
        column.addWidget(self._said)
        column.addLayout(grid)
        below = QHBoxLayout()
        below.addWidget(self.ask_button)
        below.addWidget(self.help)
        below.addStretch(1)
        column.addLayout(below)
        column.addStretch(1)
        theme.changed.connect(self._draw)
        self.clear()

    @property
    def steps(self) -> Mapping[int, Step]:
        """Return the results so far, by number."""
        return self._steps

    def clear(self, text: str = _IDLE) -> None:
        """Clear all results and show `text` instead."""
        self._steps, self._is_trying = {}, False
        self._said.setText(text)
        self._draw()

    def begin(self, text: str) -> None:
        """Show that a test is running: the first step without a result is in progress."""
        self.clear(text)
        self._is_trying = True
        self._draw()

    def show_step(self, step: Step) -> None:
        """Show the result of a step."""
        self._steps[step.number] = step
        self._draw()

    def end(self) -> None:
        """Show that no more results follow."""
        self._is_trying = False
        self._draw()
        found = [step.status for step in self._steps.values()]
        if "failed" in found:
            self._said.setText("It cannot be used like this.")
        elif any(step.asks for step in self._steps.values()):
            self._said.setText("It needs your input.")
        elif found:
            self._said.setText("It can be used." if "warning" not in found else "It works, with a warning.")
        else:
            self._said.setText(_IDLE)

    def _draw(self) -> None:
        asks = next((step for step in self._steps.values() if step.asks), None)
        self.help.set_page(next((step.page for step in self._steps.values() if step.page), ""))
        set_visible(self.ask_button, self, on=asks is not None)
        if asks is not None:
            self.ask_button.setText("Check the key …" if asks.number == KEY else "Log in …")
            self.ask_button.setToolTip("Test again, and enter what is missing")
        behind = max(self._steps, default=-1) + 1
        running = behind if self._is_trying else None
        for at in range(len(NAMES)):
            step = self._steps.get(at)
            sign, colour, word = _RUNNING if at == running else _LOOKS[step.status if step else "waiting"]
            self._signs[at].setText(sign)
            self._signs[at].setStyleSheet(f"color: {self._theme.colour(colour).name()}")
            self._signs[at].setAccessibleName(f"{NAMES[at]}: {word}")
            self._sentences[at].set_text("" if step is None else step.sentence, "secondary")
            self._sentences[at].setVisible(step is not None)
