"""The two views of the document, one of them in sight: as a form, and as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from PySide6.QtCore import Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QStackedWidget, QWidget

from torchdeck.config.problems import Problem, dotted
from torchdeck_app.launch.document.checked import CheckedDocument
from torchdeck_app.launch.document.run_document import RunDocument
from torchdeck_app.launch.form.form import ConfigForm
from torchdeck_app.launch.problem_rows import ProblemRow
from torchdeck_app.launch.text.editor import TomlEditor
from torchdeck_app.theme.theme import Theme


class DocumentViews(QStackedWidget):
    """What leads to a key or a line chooses the view that has it."""

    view_changed = Signal(str)
    """`form` or `toml`."""

    def __init__(
        self,
        theme: Theme,
        document: RunDocument,
        parent: QWidget | None = None,
        *,
        node_names: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """Views of `document`; `node_names` gives what the node inventory has."""
        super().__init__(parent)
        self._focus_waits = False
        self.form = ConfigForm(theme, document, node_names=node_names)
        self.editor = TomlEditor(theme, document)
        self.addWidget(self.form)
        self.addWidget(self.editor)
        self.form.line_asked.connect(self.go_to_line)

    @property
    def view(self) -> str:
        """`form` or `toml`."""
        return "form" if self.currentWidget() is self.form else "toml"

    def show_view(self, view: str) -> None:
        """Show the `form` or the `toml`."""
        self.setCurrentWidget(self.form if view == "form" else self.editor)
        self.view_changed.emit(view)

    def choose(self, view: str) -> None:
        """Show a view that the user wants to go on in."""
        self.show_view(view)
        self.take_focus()

    def switch(self) -> None:
        """Show the other one, to go on in."""
        self.choose("toml" if self.view == "form" else "form")

    def take_focus(self) -> None:
        """The keyboard is for the view in sight; once it is: keys would reach what nobody sees."""
        self._focus_waits = not self.isVisible()
        if not self._focus_waits:
            (self.form if self.view == "form" else self.editor).setFocus()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 - Qt's name
        super().showEvent(event)
        if self._focus_waits:
            self.take_focus()

    def set_read_only(self, *, read_only: bool) -> None:
        """Whether the document cannot be changed."""
        self.editor.set_read_only(read_only=read_only)
        self.form.set_read_only(read_only=read_only)

    def show_planned(self, problems: tuple[Problem, ...]) -> None:
        """Mark what planning has found wrong, besides what the document itself says."""
        self.form.show_planned(problems)
        self.editor.show_planned(problems)

    def go_to(self, row: ProblemRow) -> None:
        """Lead to the field of a problem, or to its line."""
        if row.line is not None:
            self.editor.reveal(row.line)
        if self.view == "form" and row.path:
            self.form.reveal(row.path)
        elif row.line is not None:
            self.go_to_line(row.line)

    def go_to_key(self, key: str, rows: Iterable[ProblemRow], checked: CheckedDocument | None) -> None:
        """Lead to a key.

        Args:
            key: its dotted name.
            rows: what is wrong, of which some may be with this key.
            checked: the document as it was checked last, which says where the key stands.
        """
        lines = {} if checked is None else {dotted(path): line for path, line in checked.lines.items()}
        listed = (row for row in rows if row.path == key)
        self.go_to(next(listed, ProblemRow(key, "", "", lines.get(key), "")))

    def go_to_line(self, line: int) -> None:
        """Lead to a line of the text."""
        self.show_view("toml")
        self.editor.reveal(line)
        self.editor.setFocus()

    def search(self) -> None:
        """Search in the view in sight."""
        if self.view == "form":
            self.form.focus_search()
        else:
            self.editor.open_find()

    def ask_line(self) -> None:
        """Ask which line to go to, where there are lines."""
        if self.view == "toml":
            self.editor.go_to_line()
