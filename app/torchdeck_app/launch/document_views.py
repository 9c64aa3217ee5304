"""Views of the document, form and text, one of them visible; and its current problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from PySide6.QtCore import Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QApplication, QWidget

from torchdeck.config.problems import Problem, dotted
from torchdeck.config.toml.document import KeyPath
from torchdeck.plan.preview import Preview
from torchdeck_app.launch.check.batch_plan_dialogs import BatchPlanControl
from torchdeck_app.launch.document.checked_text import CheckedDocument
from torchdeck_app.launch.document.run_document import RunDocument
from torchdeck_app.launch.files.document_toolbar import VIEWS
from torchdeck_app.launch.form.environment_field import EnvironmentSearch
from torchdeck_app.launch.form.form import ConfigForm
from torchdeck_app.launch.form.gpu_field import FreeGpuSearch
from torchdeck_app.launch.preview.preview_service import PreviewService
from torchdeck_app.launch.problem_list import ProblemList, ProblemRow, misfit_rows, problem_rows
from torchdeck_app.launch.text.editor import TomlEditor
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.panel import GRID
from torchdeck_app.widgets.splitter import Splitter

_FORM = 55 * GRID
"""Minimum width of the form next to the text, in pixels."""


class DocumentViews(Splitter):
    """Form and text: one of them, or both side by side; navigation to a key or line selects the suitable
    view.
    """

    view_changed = Signal(str)
    """`form` or `toml`."""

    def __init__(
        self,
        theme: Theme,
        document: RunDocument,
        parent: QWidget | None = None,
        *,
        node_names: Callable[[], Sequence[str]] = tuple,
        environments: EnvironmentSearch | None = None,
        free_gpus: FreeGpuSearch | None = None,
    ) -> None:
        """Create views of `document`; for the other arguments see ConfigForm."""
        super().__init__("Width of the form", parent=parent)
        self._document = document
        self._focus_waits = False
        self._view = VIEWS[0]
        self.is_side_by_side = False
        self.form = ConfigForm(
            theme, document, node_names=node_names, environments=environments, free_gpus=free_gpus
        )
        self.editor = TomlEditor(theme, document)
        self.addWidget(self.form)
        self.addWidget(self.editor)
        self.setStretchFactor(1, 1)
        self.setHandleWidth(1)
        self.form.line_asked.connect(self.go_to_line)
        self.form.key_entered.connect(self._show_line_of)
        self.editor.line_entered.connect(self._show_key_at)
        app = QApplication.instance()
        if isinstance(app, QApplication):
            app.focusChanged.connect(self._focus_moved)

    @property
    def view(self) -> str:
        """`form` or `toml`; side by side, the one that last had the focus."""
        return self._view

    def show_view(self, view: str) -> None:
        """Show the `form` or the `toml`."""
        self._view = view
        self._show_parts()
        self.view_changed.emit(view)

    def set_side_by_side(self, *, both: bool) -> None:
        """Show both views, or the current one."""
        self.is_side_by_side = both
        self.form.setMinimumWidth(_FORM if both else 0)
        self._show_parts()

    def _show_parts(self) -> None:
        for view, widget in zip(VIEWS, (self.form, self.editor), strict=True):
            widget.setVisible(self.is_side_by_side or view == self._view)

    def _focus_moved(self, _before: QWidget | None, now: QWidget | None) -> None:
        """Note which view has the focus."""
        for view, widget in zip(VIEWS, (self.form, self.editor), strict=True):
            if now is not None and self.is_side_by_side and widget.isAncestorOf(now) and view != self._view:
                self._view = view
                self.view_changed.emit(view)

    def _show_line_of(self, path: KeyPath) -> None:
        """Show the line of the form's field."""
        checked = self._document.newest
        line = None if checked is None else checked.line_of(path)
        if self.is_side_by_side and line is not None and not self.editor.area.hasFocus():
            self.editor.reveal(line)

    def _show_key_at(self, line: int) -> None:
        """Show the field of the text's line."""
        checked = self._document.newest
        if self.is_side_by_side and checked is not None and self.editor.area.hasFocus():
            self.form.point_to(checked.key_at(line))

    def choose(self, view: str) -> None:
        """Show a view and focus it."""
        self.show_view(view)
        self.take_focus()

    def switch(self) -> None:
        """Show the other view and focus it."""
        self.choose("toml" if self.view == "form" else "form")

    def take_focus(self) -> None:
        """Focus the current view once it is visible: keys must not reach a hidden one."""
        self._focus_waits = not self.isVisible()
        if not self._focus_waits:
            (self.form if self.view == "form" else self.editor).setFocus()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 - Qt's name
        super().showEvent(event)
        if self._focus_waits:
            self.take_focus()

    def set_read_only(self, *, read_only: bool) -> None:
        """Set whether the document is read-only."""
        self.editor.set_read_only(read_only=read_only)
        self.form.set_read_only(read_only=read_only)

    def show_planned(self, problems: tuple[Problem, ...]) -> None:
        """Mark problems found by planning, besides those of the document itself."""
        self.form.show_planned(problems)
        self.editor.show_planned(problems)

    def go_to(self, row: ProblemRow) -> None:
        """Go to the field of a problem, or to its line."""
        if row.line is not None:
            self.editor.reveal(row.line)
        if self.view == "form" and row.path:
            self.form.reveal(row.path)
        elif row.line is not None:
            self.go_to_line(row.line)

    def go_to_key(self, key: str, rows: Iterable[ProblemRow], checked: CheckedDocument | None) -> None:
        """Go to a key.

        Args:
            key: its dotted name.
            rows: problems, of which some may be with this key.
            checked: the last checked document, which has the key's position.
        """
        lines = {} if checked is None else {dotted(path): line for path, line in checked.lines.items()}
        listed = (row for row in rows if row.path == key)
        self.go_to(next(listed, ProblemRow(key, "", "", lines.get(key), "")))

    def go_to_line(self, line: int) -> None:
        """Go to a line of the text."""
        self.show_view("toml")
        self.editor.reveal(line)
        self.editor.setFocus()

    def search(self) -> None:
        """Search in the current view."""
        if self.view == "form":
            self.form.focus_search()
        else:
            self.editor.open_find()

    def ask_line(self) -> None:
        """Ask for a line to go to, if the text is visible."""
        if self.view == "toml" or self.is_side_by_side:
            self.editor.go_to_line()


class FoundProblems:
    """Problems of `document`, and those that `service` has found in planning it."""

    def __init__(self, document: RunDocument, service: PreviewService) -> None:
        self._document, self._service = document, service

    def rows(self) -> tuple[ProblemRow, ...]:
        """Return the current or pending rows of the problem list."""
        return problem_rows(self._document.newest, self._planned())

    def show(self, shown: ProblemList, views: DocumentViews, batch_plan: BatchPlanControl) -> None:
        """Show the problems in the list, at fields and lines, and for a missing batch plan."""
        checked, planned = self._document.newest, self._planned()
        shown.show_rows(self.rows() or misfit_rows(self._previewed()))
        views.show_planned(planned)
        if checked is not None and self._service.state.version == checked.version:
            batch_plan.show_problems(checked, planned)

    def _planned(self) -> tuple[Problem, ...]:
        """Return the planning problems of the last checked text."""
        return self._service.state.problems if self._is_newest() else ()

    def _previewed(self) -> Preview | None:
        """Return the preview, if it is of the last checked text."""
        state = self._service.state
        return state.preview if self._is_newest() and not state.stale else None

    def _is_newest(self) -> bool:
        checked, version = self._document.newest, self._service.state.version
        return checked is not None and checked.loaded is not None and version == checked.version
