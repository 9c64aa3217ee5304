"""Launch page: the run file next to its preview."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QAction, QResizeEvent
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from torchdeck.config.remedies import Remedy
from torchdeck.config.toml.document import KeyPath
from torchdeck.config.toml.edit import EditError
from torchdeck.shown_text import shown_line
from torchdeck.trust.trusted_entry import Held
from torchdeck_app.bridge.logins import Logins, make_logins
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.check.batch_plan_dialogs import BatchPlanControl
from torchdeck_app.launch.check.launch_bar import LaunchControl
from torchdeck_app.launch.document.checked_text import CheckedDocument
from torchdeck_app.launch.document.run_document import RunDocument
from torchdeck_app.launch.document_views import DocumentViews, FoundProblems
from torchdeck_app.launch.files.diff_dialog import DiffDialog
from torchdeck_app.launch.files.document_file import DocumentFile, document_state, restore_document
from torchdeck_app.launch.files.document_toolbar import VIEWS, DocumentToolbar, LaunchActions
from torchdeck_app.launch.files.file_control import BEGUN, FileControl
from torchdeck_app.launch.files.notice import Notice
from torchdeck_app.launch.files.start_page import StartPage, preset_cards
from torchdeck_app.launch.form.environment_field import EnvironmentSearch
from torchdeck_app.launch.form.gpu_field import FreeGpuSearch
from torchdeck_app.launch.node_names import NodeNames
from torchdeck_app.launch.page_layout import WIDE, Halves
from torchdeck_app.launch.preview.placement.run_nodes import RunNodes
from torchdeck_app.launch.preview.preview_pane import PreviewPane
from torchdeck_app.launch.preview.preview_service import PreviewService
from torchdeck_app.launch.preview.preview_state import PreviewState
from torchdeck_app.launch.problem_list import ProblemList
from torchdeck_app.launch.visible_prompts import AskedInSight
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.page import Page

DRAFTS = "torchdeck"
"""Folder in the user's home in which unsaved runs work."""


class LaunchPage(Page):
    """Page with the document on the left and its preview on the right; the presets while there is no
    document.
    """

    run_started = Signal(str)
    """Emitted with the id of a run that was started here."""

    def __init__(
        self,
        theme: Theme,
        operations: Operations,
        home: Path,
        parent: QWidget | None = None,
        *,
        drafts: Path | None = None,
        logins: Logins | None = None,
        new_tab: Callable[[], None] | None = None,
    ) -> None:
        """Args:
        theme: theme of the window.
        operations: runs blocking work.
        home: TORCHDECK_HOME.
        parent: Qt parent.
        drafts: working folder of runs that are in no file. Default: `torchdeck` in the user's home.
        logins: connects to nodes; without it the user is never prompted.
        new_tab: shows what a run can start from, next to this page; without it this page does.
        """
        super().__init__(parent)
        logins = logins or make_logins(home)
        self._theme, self._operations, self._home = theme, operations, home
        self._drafts = Path.home() / DRAFTS if drafts is None else drafts
        self.document = RunDocument(self._drafts, self)
        self._asked = AskedInSight(logins)
        self.service = PreviewService(operations, home, self, connector=self._asked.connector)
        self.file = DocumentFile(self.document, operations, self)
        self.notice = Notice(theme)
        self.files = FileControl(self.file, self.document, operations, self.notice, self, self._drafts)
        self.actions_here = LaunchActions(theme, self.document.undo_stack, self)
        self.start_page = StartPage(theme)
        self.toolbar = DocumentToolbar(theme)
        self.node_names = NodeNames(operations, logins, self)
        self.environments = EnvironmentSearch(self.document, operations, lambda: logins.quiet, self)
        self.free_gpus = FreeGpuSearch(operations, lambda: logins.quiet, self)
        self.views = self._make_views()
        self.form, self.editor = self.views.form, self.views.editor
        self.problems = ProblemList(theme)
        self.run_nodes = RunNodes(self.document, self.node_names, self)
        self.pane = PreviewPane(theme, self.service, run_nodes=self.run_nodes)
        self.found = FoundProblems(self.document, self.service)
        self.control = LaunchControl(
            theme, self.document, self.service, operations, logins, self._source, listed=self.found.rows
        )
        self.batch_plan = BatchPlanControl(operations, self.notice, self)
        self.changes = PreviewChanges(self.document, self.file, self.notice)
        self._new_tab = new_tab
        self.has_begun = False
        """Whether it has a document, even if its start page is shown."""
        self.unread: Mapping[str, Any] | None = None
        """Saved state of a document that is still to be read, or could not be."""
        self._lay_out()
        self._connect()
        self._follow()
        self._has_document(there=False)
        self.show_view("form")
        shown, failed = self.start_page.show_cards, self.start_page.show_error
        operations.run("reading the presets", lambda *_: preset_cards(), done=shown, failed=failed)

    def _make_views(self) -> DocumentViews:
        return DocumentViews(
            self._theme,
            self.document,
            node_names=self.node_names.names,
            environments=self.environments,
            free_gpus=self.free_gpus,
        )

    def open_path(self, path: Path) -> None:
        """Open a run file, or create one for a script."""
        self.files.open_path(path)

    def open_text(self, text: str, path: Path | None, name: str) -> None:
        """Begin with a text that is in no file, such as that of a run."""
        self.files.open_text(text, path, name)

    def new_from_preset(self, name: str) -> None:
        """Begin with a copy of a preset."""
        self.files.new_from_preset(name)

    def show_diff_to_run(self, run_id: str = "") -> None:
        """Show the changes since a run; the newest if none is given."""
        DiffDialog(
            self._theme, self._operations, self._home, self.document.text, self.file.name, self
        ).open_for(run_id)

    def show_view(self, view: str) -> None:
        """Show the `form` or the `toml`."""
        self.views.show_view(view)

    @property
    def view(self) -> str:
        """`form` or `toml`."""
        return self.views.view

    @property
    def has_document(self) -> bool:
        return self._pages.currentWidget() is self._work

    def actions_offered(self) -> Sequence[QAction]:
        return self.actions_here.all

    def entered(self) -> None:
        self.file.start()
        self.node_names.read()
        if self._asked.come_into_sight():
            self.service.refresh()

    def left(self) -> None:
        self._asked.go_out_of_sight()
        self.file.stop()

    def closing(self) -> None:
        self.file.close(1.0)
        self.service.close()
        self.document.close(1.0)

    def save_state(self) -> dict[str, Any]:
        return {
            "recent": self.file.recent.save_state(),
            "view": self.view,
            **self._work.save_state(),
            "editor": self.editor.save_state(),
            "document": document_state(self.file, self.document) if self.has_begun else self.unread,
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        self.file.recent.restore_state(state.get("recent"))
        self.start_page.show_recent(self.file.recent.paths)
        self._work.restore_state(state)
        if state.get("view") in VIEWS:
            self.show_view(str(state["view"]))
        if isinstance(document := state.get("document"), Mapping):
            self.unread = document
            restore_document(self.file, document)
        if isinstance(editor := state.get("editor"), Mapping):
            self.editor.restore_state(editor)

    def _lay_out(self) -> None:
        self.control.panel.lie_over(self.pane)
        self._work = Halves(self.toolbar, self.views, self.problems, self.pane, self.control)
        self._pages = QStackedWidget()
        self._pages.addWidget(self.start_page)
        self._pages.addWidget(self._work)
        self._whole = QVBoxLayout(self)
        self._whole.setContentsMargins(0, 0, 0, 0)
        self._whole.setSpacing(0)
        self._whole.addWidget(self._pages, 1)

    def _connect(self) -> None:
        actions, files = self.actions_here, self.files
        actions.connect_to(
            {
                actions.new: self._new_document,
                actions.open: files.choose_file,
                actions.script: files.choose_script,
                actions.save: self._typed_first(files.save),
                actions.save_as: self._typed_first(files.save_as),
                actions.find: self.views.search,
                actions.go_to_line: self.views.ask_line,
                actions.switch: self.views.switch,
                actions.diff: self.show_diff_to_run,
                actions.check: self._typed_first(self.control.check),
                actions.launch: self._typed_first(self.control.launch),
                actions.queue: self._typed_first(self.control.queue),
                actions.forget_secrets: self.control.launching.forget_secrets,
                actions.export_scripts: lambda: self._export(self.pane.commands.save_all),
                actions.export_job: lambda: self._export(self.pane.commands.save_job),
            }
        )
        self.addActions(actions.all)
        self.control.use(actions.check, actions.launch)
        self.toolbar.add_buttons(actions.undo, actions.redo, actions.find)
        self.toolbar.view_chosen.connect(self.views.choose)
        self.views.view_changed.connect(self._show_view)
        self.toolbar.file_chosen.connect(self.open_path)
        self.toolbar.menu.aboutToShow.connect(self._fill_menu)
        self._fill_menu()
        self.start_page.preset_chosen.connect(self.new_from_preset)
        self.start_page.file_chosen.connect(self.open_path)
        self.start_page.open_wanted.connect(files.choose_file)
        self.start_page.back_wanted.connect(lambda: self._has_document(there=True))
        self.start_page.script_wanted.connect(files.choose_script)

    def _follow(self) -> None:
        """Connect to the document, and to its results."""
        self.file.opened.connect(self._opened)
        self.file.status_changed.connect(self._show_status)
        self.document.checked.connect(self._checked)
        self.document.text_changed.connect(self.control.document_changed)
        self.service.updated.connect(self._previewed)
        self.environments.node_changed.connect(self.service.refresh)
        self.pane.change_asked.connect(self.changes.apply)
        self.pane.trust_asked.connect(self._ask_trust)
        self.document.opened.connect(self.batch_plan.reset)
        self.document.opened.connect(self.service.reset)
        self.batch_plan.built.connect(self._plan_built)
        self.problems.chosen.connect(self.views.go_to)
        self.problems.remedy_asked.connect(self.changes.solve)
        self.control.key_wanted.connect(
            lambda key: self.views.go_to_key(key, self.found.rows(), self.document.newest)
        )
        self.control.problems_wanted.connect(self._lead_to_problems)
        self.control.run_started.connect(lambda _run_id: self.notice.clear(BEGUN))
        self.control.run_started.connect(self.run_started)
        self.control.queued.connect(lambda sentence: self.notice.say(sentence, "done"))

    def _source(self) -> str:
        """Return the file of the text."""
        return "" if self.document.path is None or self.file.base is None else str(self.document.path)

    def _typed_first(self, act: Callable[[], None]) -> Callable[[], None]:
        """Return a function that commits pending input before it saves, checks or launches."""

        def do() -> None:
            self.form.take_over()
            act()

        return do

    def _has_document(self, *, there: bool) -> None:
        # above the document it takes no space from the preview; without a document it is above the presets
        (self._work.above_document if there else self._whole).insertWidget(0, self.notice)
        self._pages.setCurrentWidget(self._work if there else self.start_page)
        self._show_title()
        self.actions_here.set_document(there=there)
        self.actions_here.set_preview(there=there and self.service.state.preview is not None)
        self._show_line_action()

    def _new_document(self) -> None:
        if self._new_tab is not None:
            self._new_tab()
            return
        self.start_page.show_recent(self.file.recent.paths)
        # the open document stays until another one is chosen
        self.start_page.show_back(self.file.name if self.has_begun else "")
        self._has_document(there=False)

    def _opened(self, _note: str) -> None:
        if self.file.damage:
            self.show_view("toml")
        self.has_begun, self.unread = True, None
        self._has_document(there=True)
        self._show_status()
        self.views.take_focus()

    def _show_view(self, view: str) -> None:
        self.toolbar.show_view(view)
        self._show_line_action()

    def _show_line_action(self) -> None:
        has_lines = self.view == "toml" or self.views.is_side_by_side
        self.actions_here.go_to_line.setEnabled(self.has_document and has_lines)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        """Show form and text side by side where there is room for both."""
        super().resizeEvent(event)
        is_wide = event.size().width() >= WIDE
        if is_wide != self.views.is_side_by_side:
            self.views.set_side_by_side(both=is_wide)
            # once the layout has given the halves this width
            QTimer.singleShot(0, self, partial(self._work.set_wide, is_wide=is_wide))
            self.toolbar.show_switch(there=not is_wide)
            self._show_line_action()

    def _show_status(self) -> None:
        self.toolbar.show_name(self.file.name, self.document.path, is_saved=self.file.is_saved)
        self._show_title()
        self.views.set_read_only(read_only=bool(self.file.damage))

    def _show_title(self) -> None:
        self.setWindowTitle(shown_line(self.file.name) if self.has_document else "")

    def _fill_menu(self) -> None:
        self.toolbar.fill_menu(self.actions_here, self.file.recent.paths)

    def _checked(self, checked: CheckedDocument) -> None:
        self.service.request(checked)
        self._show_problems()

    def _previewed(self, state: PreviewState) -> None:
        self.actions_here.set_preview(there=self.has_document and state.preview is not None)
        self._show_problems()

    def _show_problems(self) -> None:
        self.found.show(self.problems, self.views, self.batch_plan)

    def _lead_to_problems(self) -> None:
        self._show_problems()  # the control may get the newest state before the list
        self.problems.take_focus()

    def _ask_trust(self, held: Held) -> None:
        """Ask for trust for the preview; a running launch asks by itself."""
        if not self.control.launching.is_busy:
            self.control.ask_trust(held, lambda: self.service.trust(held.folder), launching=False)

    def _plan_built(self) -> None:
        self.notice.say("The batch plan is built.", "done")
        self.service.refresh()

    def _export(self, save: Callable[[], object]) -> None:
        self.pane.show_commands()
        save()


class PreviewChanges:
    """Changes from the preview: one undo step each, or a notice with the reason why not."""

    def __init__(self, document: RunDocument, file: DocumentFile, notice: Notice) -> None:
        self._document, self._file, self._notice = document, file, notice

    def solve(self, remedy: Remedy) -> None:
        """Apply the change that solves a problem."""
        self._edit(lambda: self._document.edit(remedy.label, remedy.apply))

    def apply(self, values: dict[str | KeyPath, Any]) -> None:
        """Set keys of the run file, dotted or as paths, to values; None resets one."""
        self._edit(lambda: self._document.set_values(values))

    def _edit(self, edit: Callable[[], None]) -> None:
        if self._file.damage:
            self._notice.say(f"{self._file.name} cannot be changed: {self._file.damage}", "error")
            return
        try:
            edit()
        except EditError as error:
            self._notice.say(f"The run file cannot be changed from here: {error}", "error")
