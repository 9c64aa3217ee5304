"""Adding a node or changing one: its fields on the left, what comes of trying it out on the right."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from torchdeck.config.problems import ConfigError, undotted
from torchdeck.nodes.book.file import book_path, change_book
from torchdeck.nodes.book.problems import made_entry
from torchdeck.nodes.book.schema import NodeBook, NodeEntry
from torchdeck.nodes.book.text import with_node
from torchdeck.shown_text import shown
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.nodes.editing.entry_form import EntryForm
from torchdeck_app.nodes.editing.node_test import NodeTest
from torchdeck_app.nodes.editing.step_list import StepList
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.dialog_size import begin_with
from torchdeck_app.widgets.panel import GRID, label

_TRYING = "Trying it out …"


class NodeDialog(QDialog):
    """Writes the node book when it is accepted; a node that does not answer may be written, too."""

    saved = Signal(str)
    """The node's name; the book has it now."""

    def __init__(
        self,
        theme: Theme,
        operations: Operations,
        logins: Logins,
        book: NodeBook,
        name: str = "",
        parent: QWidget | None = None,
    ) -> None:
        """
        Args:
            theme: of the window.
            operations: for writing the book.
            logins: how nodes are reached.
            book: as it is now.
            name: of the node that is changed; empty for a new one.
            parent: Qt's owner.
        """
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(f"Edit {shown(name)}" if name else "Add a node")
        self._operations, self._logins, self._book, self._old = operations, logins, book, name
        self._is_saving = False
        self.name = QLineEdit(name)
        self.name.setReadOnly(bool(name))
        self.name.setPlaceholderText("what run files call it, such as gpu0")
        entry = book.nodes.get(name)
        self.form = EntryForm(self.name, {} if entry is None else entry.model_dump(exclude_defaults=True))
        self.steps = StepList(theme)
        self.test = NodeTest(logins, self)
        self._error = label("", role="error", wrap=True)
        self._error.hide()
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
        """Enabled once what is typed is a node."""
        return self.buttons.button(QDialogButtonBox.StandardButton.Save)

    def entry(self) -> NodeEntry | None:
        """What is typed; None, said at the fields, where it is no node."""
        name = self.name.text().strip()
        problems: dict[str, str] = {}
        if not self._old and (name in self._book.nodes or name in self._book.groups):
            problems["name"] = "This name is taken"
        try:
            made = made_entry(name, self.form.values())
        except ConfigError as error:
            for problem in error.problems:
                path = undotted(problem.path)
                key = str(path[2]) if len(path) > 2 else "address" if "address" in problem.wrong else "name"
                wrong = problem.wrong[:1].upper() + problem.wrong[1:]
                problems.setdefault(key, f"{wrong}. Right would be {problem.right}")
            made = None
        self.form.show_problems(problems)
        return None if problems else made

    def save(self) -> None:
        """Write what is typed into the book, and close."""
        entry = self.entry()
        if entry is None or self._is_saving:
            return
        self._is_saving = True
        name, path = self.name.text().strip(), book_path(self._logins.home)
        self.save_button.setEnabled(False)
        self._operations.run(
            "writing the node book",
            lambda _progress, _cancel: change_book(path, lambda text: with_node(text, name, entry)),
            done=lambda _book: self._saved(name),
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
        steps.setAccessibleName("What came of trying it out")
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
        """After each key."""
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
        self._error.setText(f"The node book was not changed: {error}")
        self._error.show()
