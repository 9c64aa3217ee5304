"""Form built from the schema: one view of the document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication, QFrame, QScrollArea, QVBoxLayout, QWidget
from shiboken6 import isValid

from torchdeck.config.keys import Key
from torchdeck.config.problems import Problem, undotted
from torchdeck.config.toml.document import KeyPath
from torchdeck.config.toml.edit import EditError
from torchdeck_app.launch.document.checked_text import CheckedDocument
from torchdeck_app.launch.document.run_document import RunDocument
from torchdeck_app.launch.form.base_control import ValueLine
from torchdeck_app.launch.form.environment_field import EnvironmentSearch
from torchdeck_app.launch.form.field_messages import sentence
from torchdeck_app.launch.form.field_row import FieldRow, row_around
from torchdeck_app.launch.form.form_edits import NamedEdit
from torchdeck_app.launch.form.form_groups import BASIC, MORE
from torchdeck_app.launch.form.form_model import FormModel
from torchdeck_app.launch.form.form_state import FieldState, more_of
from torchdeck_app.launch.form.gpu_field import FreeGpuSearch
from torchdeck_app.launch.form.group_box import GroupBox, GroupHeader
from torchdeck_app.launch.form.help_strip import HelpStrip
from torchdeck_app.launch.form.kind_row import KindRow
from torchdeck_app.launch.form.unread_text import Banner, UnreadState
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.help import open_page
from torchdeck_app.widgets.inputs import SearchLine
from torchdeck_app.widgets.panel import GRID, label
from torchdeck_app.widgets.tab_order import step_focus


class ConfigForm(QWidget):
    """Form with groups of fields over a help strip; every edit is one undo step of the document."""

    line_asked = Signal(int)
    """Emitted with a line of the text to show, counted from 1."""
    key_entered = Signal(object)
    """Emitted with the path of the field that gets the focus."""

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
        """Create a form of `document`.

        Args:
            theme: theme of the window.
            document: the run file.
            parent: Qt parent.
            node_names: returns the names in the node inventory.
            environments: finds the Pythons that a run could use.
            free_gpus: finds GPUs that nothing uses.
        """
        super().__init__(parent)
        self._theme = theme
        self._node_names, self._environments, self._free_gpus = node_names, environments, free_gpus
        self._document = document
        self._checked: CheckedDocument | None = None
        self._wrong: Problem | None = None  # problem of the current text if it cannot be read
        self._planned: tuple[Problem, ...] = ()
        self._is_read_only, self._is_writable = False, True
        self._offered_kind = ""
        self._open: set[str] = set()
        self._row_in_focus: FieldRow | None = None
        self._marked: FieldRow | None = None
        self.groups: dict[str, GroupBox] = {}
        self.kind_row = KindRow()
        self.kind_row.chosen.connect(self._offer_kind)
        self._lay_out()
        document.checked.connect(self._show)
        document.opened.connect(self._reset)
        app = QApplication.instance()
        if isinstance(app, QApplication):
            app.focusChanged.connect(self._focus_moved)
        if document.newest is not None:
            self._show(document.newest)

    def _lay_out(self) -> None:
        self.search = SearchLine()
        self.search.setPlaceholderText("Search settings (Ctrl+F)")
        self.search.setToolTip("Show only settings whose name or description contains these words (Ctrl+F)")
        self.search.setAccessibleName("search settings")
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._filter)
        self.setFocusProxy(self.search)
        self.search.returnPressed.connect(self._to_first_match)
        self.banner = Banner()
        self.banner.pressed.connect(lambda: self.line_asked.emit(self.banner.line))
        self._nothing = label("No setting matches.", role="secondary")
        self._nothing.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._nothing.setVisible(False)
        inside = QWidget()
        self._column = QVBoxLayout(inside)
        self._column.setContentsMargins(GRID, 0, GRID, GRID)
        self._column.setSpacing(0)
        self._column.addWidget(self._nothing)
        self.more = GroupHeader(self._theme)
        self.more.toggled.connect(self._open_more)
        self._column.addWidget(self.more)
        self._column.addStretch(1)
        self.area = QScrollArea()
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.area.setWidgetResizable(True)
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.area.setWidget(inside)
        self.unread = UnreadState(self._theme)
        self.unread.pressed.connect(self.line_asked)
        self.help = HelpStrip()
        self.help.opened.connect(lambda: QTimer.singleShot(0, self, self._keep_row_in_sight))
        top = QVBoxLayout()
        top.setContentsMargins(2 * GRID, GRID, 2 * GRID, GRID)
        top.addWidget(self.search)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(top)
        column.addWidget(self.banner)
        column.addWidget(self.unread)
        column.addWidget(self.area, 1)
        column.addWidget(self.help)

    def reveal(self, path: str) -> None:
        """Go to the field of the dotted key `path`, or to its group if it has no field."""
        steps = undotted(path)
        self.search.clear()
        group = self._group_of(steps)
        if group is None:
            return
        if group is not self.groups.get(BASIC):
            self.more.setChecked(True)
        group.set_open(is_open=True)
        row = group.row_at(steps)
        if row is None:
            group.take_focus()
        else:
            row.setVisible(True)
            row.take_focus(steps)
        # after the layout has placed new widgets
        QTimer.singleShot(0, self, partial(self._scroll_to, row or group))

    def _group_of(self, path: KeyPath) -> GroupBox | None:
        """Return the group with the field of `path`, else that of its table."""
        having = (group for group in self.groups.values() if group.has(path))
        table = str(path[0]) if path else ""
        return next(having, None) or self.groups.get(table)

    def point_to(self, path: KeyPath) -> None:
        """Scroll to the field of a key and mark it; the focus stays, and no group is opened."""
        group = self._group_of(path) if path else None
        row = group.row_at(path) if group is not None and group.is_open and group.isVisible() else None
        self._mark(row)
        target = row or (group.header if group is not None and group.isVisible() else self.more)
        if path:
            self._scroll_to(target)
        if row is not None:
            self.help.show_key(row.state.key)

    def _mark(self, row: FieldRow | None) -> None:
        if self._marked is not None and isValid(self._marked):
            self._marked.set_pointed(is_pointed=False)
        self._marked = row
        if row is not None:
            row.set_pointed(is_pointed=True)

    def show_planned(self, problems: Sequence[Problem]) -> None:
        """Show why no plan can be made, at the affected fields."""
        if tuple(problems) != self._planned:
            self._planned = tuple(problems)
            self._refresh()

    def set_read_only(self, *, read_only: bool) -> None:
        """Set whether the document is read-only."""
        if read_only != self._is_read_only:
            self._is_read_only = read_only
            self._refresh()

    def take_over(self) -> None:
        """Commit the input of the focused field, as Enter would; before a launch or save."""
        row = self._row_in_focus
        if row is None or not isValid(row):
            return
        for line in row.findChildren(ValueLine):
            if line.is_being_typed:
                line.editingFinished.emit()

    def focus_search(self) -> None:
        """Focus the search field."""
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search.selectAll()

    def save_state(self) -> dict[str, Any]:
        """Return which groups are open."""
        return {"open": sorted(self._open)}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Open the saved groups; invalid entries are skipped."""
        names = state.get("open")
        if isinstance(names, list):
            self._open = {name for name in names if isinstance(name, str)}
            self.more.setChecked(MORE in self._open)
            for name, group in self.groups.items():
                group.set_open(is_open=name in (BASIC, *self._open))

    def _reset(self) -> None:
        """Reset search and choices for another document."""
        self._offered_kind, self._planned = "", ()
        self._checked = None
        self.search.clear()
        self.help.clear()
        self.area.verticalScrollBar().setValue(0)

    def _show(self, checked: CheckedDocument) -> None:
        self._wrong = checked.problems[0] if checked.table is None else None
        if self._wrong is None:
            self._checked = checked
        self._refresh()

    def _show_unreadable(self, problem: Problem) -> None:
        """Show an unreadable text: the last readable state stays visible and read-only, if there was one."""
        is_new = self._checked is None
        self._show_fields(there=not is_new)
        said = f"{sentence(problem, '✕')}. The form shows the last valid text."
        self.banner.show_problem("" if is_new else said, problem.line)
        if is_new:
            self.unread.show_problem(problem)
        self._set_writable(writable=False)

    def _show_fields(self, *, there: bool) -> None:
        if there is self.unread.isHidden():
            return
        focused = QApplication.focusWidget()
        had_focus = focused is not None and self.isAncestorOf(focused)
        for widget in (self.search, self.area, self.help):
            widget.setVisible(there)
        self.unread.setVisible(not there)
        self.setFocusProxy(self.search if there else self.unread.button)
        if had_focus:  # once hidden, it would pass to the next widget of the window
            self.setFocus(Qt.FocusReason.OtherFocusReason)

    def _refresh(self) -> None:
        checked = self._checked
        if self._wrong is not None:
            self._show_unreadable(self._wrong)
            return
        if checked is None:
            return
        self._show_fields(there=True)
        model = FormModel(checked, kind=self._offered_kind, planned=self._planned)
        if self._offered_kind == model.written_kind():
            self._offered_kind = ""
        self.kind_row.show_kind(self._offered_kind or model.kind)
        state = model.state()
        for group in state.groups:
            if group.name not in self.groups:
                self._add_group(group.name, state.groups)
            self.groups[group.name].show_group(group)
        self.more.show_group(more_of([group for group in state.groups if group.name != BASIC]))
        loose = "\n".join(
            f"{sentence(problem, '✕')}{f' ({problem.path})' if problem.path else ''}"
            for problem in state.problems
        )
        line = next((p.line for p in state.problems if checked.is_own(p)), None)
        self.banner.show_problem(loose, line)
        self._set_writable(writable=True)
        self._filter()

    def _add_group(self, name: str, states: Sequence[Any]) -> None:
        state = next(state for state in states if state.name == name)
        is_basic = name == BASIC
        box = GroupBox(self._theme, state, self._make_row, self.kind_row if is_basic else None)
        self.groups[name] = box
        end = self._column.count() - 1
        self._column.insertWidget(self._column.indexOf(self.more) if is_basic else end, box)
        box.header.setVisible(not is_basic)
        box.set_open(is_open=is_basic or name in self._open)
        box.opened.connect(partial(self._remember_open, name))

    def _remember_open(self, name: str, is_open: bool) -> None:  # noqa: FBT001 - what the signal brings
        (self._open.add if is_open else self._open.discard)(name)

    def _open_more(self, is_open: bool) -> None:  # noqa: FBT001 - what the signal brings
        self._remember_open(MORE, is_open)
        self._filter()

    def _make_row(self, state: FieldState) -> FieldRow:
        row = FieldRow(
            self._theme,
            state,
            lambda: self._document.folder,
            node_names=self._node_names,
            environments=self._environments,
            free_gpus=self._free_gpus,
        )
        row.asked.connect(partial(self._edit, row))
        row.help_asked.connect(self._show_help)
        row.set_writable(writable=self._is_writable)
        return row

    def _edit(self, row: FieldRow, edit: NamedEdit) -> None:
        try:
            self._document.edit(edit.name, edit.change)
        except EditError as error:
            row.refuse(str(error))

    def _offer_kind(self, kind: str) -> None:
        self._offered_kind = kind
        self._refresh()
        self.reveal(f"run.{kind}")

    def _set_writable(self, *, writable: bool) -> None:
        self._is_writable = writable = writable and not self._is_read_only
        self.kind_row.set_writable(writable=writable)
        for group in self.groups.values():
            group.set_writable(writable=writable)

    def event(self, event: QEvent) -> bool:
        """Take F1 from the window's shortcuts while a field has the focus."""
        is_override = event.type() == QEvent.Type.ShortcutOverride and self._row_in_focus is not None
        if is_override and isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_F1:
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        if event.key() == Qt.Key.Key_F1 and self._row_in_focus is not None:
            if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
                open_page(self.help.full.link.page)
                return
            self.help.set_open(is_open=not self.help.is_open)
        elif event.key() == Qt.Key.Key_Escape and self.help.is_open:
            self.help.set_open(is_open=False)
        else:
            super().keyPressEvent(event)

    def _show_help(self, key: Key) -> None:
        self.help.show_key(key)
        self.help.set_open(is_open=True)

    def focusNextPrevChild(self, forward: bool) -> bool:  # noqa: FBT001, N802 - Qt's name
        """Move the focus in visual order: fields are created late, as Qt would visit them."""
        return step_focus((self,), forward=forward) or super().focusNextPrevChild(forward)

    def _filter(self) -> None:
        """Show the basic group and those of an open `More`, or groups in which something is found."""
        words = self.search.text().lower().split()
        found = False
        for name, group in self.groups.items():
            matches = group.filter(words)
            is_open = name == BASIC or self.more.isChecked()
            group.setVisible(matches if words else group.is_needed and is_open)
            found = found or matches
        self.more.setVisible(not words and bool(self.groups))
        self._nothing.setVisible(bool(words) and not found)

    def _to_first_match(self) -> None:
        rows = [row for group in self.groups.values() for row in group.rows.values() if row.isVisible()]
        if rows:
            rows[0].take_focus()
            self._scroll_to(rows[0])

    def _keep_row_in_sight(self) -> None:
        if self._row_in_focus is not None and isValid(self._row_in_focus):
            self._scroll_to(self._row_in_focus)

    def _scroll_to(self, widget: QWidget) -> None:
        self.area.ensureWidgetVisible(widget, 0, 4 * GRID)

    def _focus_moved(self, _before: QWidget | None, now: QWidget | None) -> None:
        row = row_around(now, self)
        if row is self._row_in_focus:
            return
        left, self._row_in_focus = self._row_in_focus, row
        for moved in (left, row):
            if moved is not None and isValid(moved):  # a row is deleted with its group or card
                moved.focus_moved()
        if row is not None:
            self.help.show_key(row.state.key)
            self._scroll_to(row)
            self._mark(None)
            self.key_entered.emit(row.state.path)
        elif now is not None and self.isAncestorOf(now):
            self.help.clear()
