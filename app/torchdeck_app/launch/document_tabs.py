"""Documents of Launch as tabs: each is a page of its own, with its undo history and preview."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QAction, QKeySequence, QMouseEvent
from PySide6.QtWidgets import QStackedWidget, QTabBar, QVBoxLayout, QWidget

from torchdeck_app.bridge.logins import Logins, make_logins
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.files.document_sources import RecentFiles
from torchdeck_app.launch.form.base_control import SmallButton
from torchdeck_app.launch.launch_page import LaunchPage
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import control_text, plain_tip
from torchdeck_app.widgets.page import Page

MOST = 50
"""Maximum number of tabs that are restored; the one in sight and those with unsaved text always are."""
_NEW = "New run"


@dataclass
class OpenDocument:
    """Tab: its page, or the saved state of a page that was not shown yet."""

    page: LaunchPage | None
    state: Mapping[str, Any]


class DocumentTabs(Page):
    """Page with a tab per document; the tabs are hidden while there is one."""

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
    ) -> None:
        """Create one empty tab; for the arguments see LaunchPage."""
        super().__init__(parent)
        self._theme, self._operations, self._home = theme, operations, home
        self._drafts, self._logins = drafts, logins or make_logins(home)
        self._is_entered = False
        self._recent = RecentFiles()
        self._documents: list[OpenDocument] = []
        self.bar = QTabBar()
        self.bar.setAutoHide(True)
        self.bar.setDocumentMode(True)
        self.bar.setExpanding(False)
        self.bar.setMovable(True)
        self.bar.setElideMode(Qt.TextElideMode.ElideMiddle)
        self.bar.setAccessibleName("open run files")
        self.bar.installEventFilter(self)
        self._stack = QStackedWidget()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.bar)
        column.addWidget(self._stack, 1)
        self._actions = self._make_actions()
        self._add(None, {})
        self.bar.currentChanged.connect(self._show_current)
        self.bar.tabMoved.connect(lambda start, end: self._documents.insert(end, self._documents.pop(start)))
        self._show_current()

    @property
    def current(self) -> LaunchPage:
        """Return the page of the current tab."""
        return self._made(self._documents[max(0, self.bar.currentIndex())])

    @property
    def pages(self) -> list[LaunchPage]:
        """Return the pages that were shown so far, in the order of the tabs."""
        return [each.page for each in self._documents if each.page is not None]

    def open_path(self, path: Path) -> None:
        """Open a run file, or create one for a script, in a tab; a file that is open is shown."""
        self.current.open_path(path)

    def open_text(self, text: str, path: Path | None, name: str) -> None:
        """Begin a tab with a text that is in no file, such as that of a run."""
        self._empty_page().open_text(text, path, name)

    def new_from_preset(self, name: str) -> None:
        """Begin a tab with a copy of a preset."""
        self._empty_page().new_from_preset(name)

    def new_tab(self) -> None:
        """Show what a run can start from, in a tab of its own."""
        self._empty_page()

    def close_tab(self, index: int) -> None:
        """Close a tab, after a question about unsaved changes."""
        document = self._documents[index]
        if document.page is None and _name_of(document)[1]:
            self._remove(document)  # nothing to ask about, so it needs no page
            return
        self.bar.setCurrentIndex(index)
        page = self.current
        if page.control.launching.is_busy:
            page.notice.say("This run is being launched. Close it when that is done.", "warning")
            return
        page.form.take_over()
        page.files.leave(lambda: self._remove(document))

    def step(self, count: int) -> None:
        """Show the tab that is `count` tabs to the right."""
        self.bar.setCurrentIndex((self.bar.currentIndex() + count) % self.bar.count())
        self.current.views.take_focus()

    def move_tab(self, count: int) -> None:
        """Move the current tab by `count` places to the right; dragging does the same."""
        index = self.bar.currentIndex()
        if 0 <= index + count < self.bar.count():
            self.bar.moveTab(index, index + count)

    def actions_offered(self) -> Sequence[QAction]:
        return (*self.current.actions_offered(), *self._actions)

    def entered(self) -> None:
        self._is_entered = True
        self.current.entered()

    def left(self) -> None:
        self._is_entered = False
        self.current.left()

    def closing(self) -> None:
        for page in self.pages:
            page.closing()

    def save_state(self) -> dict[str, Any]:
        states = [each.state if each.page is None else each.page.save_state() for each in self._documents]
        kept = [index for index, state in enumerate(states) if state.get("document") is not None]
        shown = self.bar.currentIndex()
        return {
            **states[shown],
            "documents": [states[index] for index in kept],
            "shown": kept.index(shown) if shown in kept else len(kept),
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        documents = state.get("documents")
        found = documents if isinstance(documents, list) else [state]  # of a version without tabs
        found = [each for each in found if _has_document(each)]
        shown = state.get("shown") if isinstance(documents, list) else 0
        shown = shown if isinstance(shown, int) and 0 <= shown < len(found) else len(found)
        kept = [
            index for index, each in enumerate(found) if index in (*range(MOST), shown) or _has_text(each)
        ]
        shown = sum(index < shown for index in kept) if shown in kept else len(kept)
        found = [found[index] for index in kept]
        self._recent.restore_state(state.get("recent"))
        self.bar.blockSignals(True)  # noqa: FBT003 - Qt's signature; a tab that is passed needs no page
        for index, each in enumerate(found):
            if index != shown:
                self._add(None, each, index)
        self.bar.setCurrentIndex(shown)
        self.bar.blockSignals(False)  # noqa: FBT003 - Qt's signature
        self._restore(self.current, found[shown] if shown < len(found) else {**state, "document": None})
        self._show_current()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Close a tab by a middle click."""
        is_release = event.type() == QEvent.Type.MouseButtonRelease and watched is self.bar
        if is_release and isinstance(event, QMouseEvent) and event.button() is Qt.MouseButton.MiddleButton:
            index = self.bar.tabAt(event.position().toPoint())
            if index >= 0:
                self.close_tab(index)
                return True
        return super().eventFilter(watched, event)

    def _make_actions(self) -> tuple[QAction, ...]:
        described: tuple[tuple[str, str, str, str, Callable[[], None]], ...] = (
            ("Close &run file", "Ctrl+W", "Close this tab", "File", self._close_current),
            ("Ne&xt run file", "Ctrl+Tab", "Show the next tab", "View", lambda: self.step(1)),
            ("&Previous run file", "Ctrl+Shift+Tab", "Show the previous tab", "View", lambda: self.step(-1)),
            (
                "Move tab &left",
                "Ctrl+Shift+PgUp",
                "Move this tab to the left",
                "View",
                lambda: self.move_tab(-1),
            ),
            (
                "Move tab &right",
                "Ctrl+Shift+PgDown",
                "Move this tab to the right",
                "View",
                lambda: self.move_tab(1),
            ),
        )
        made = []
        for text, keys, tip, menu, call in described:
            action = QAction(text, self)
            action.setShortcut(QKeySequence(keys))
            action.setToolTip(f"{tip} ({keys})")
            action.setData(menu)
            action.triggered.connect(lambda _checked=False, call=call: call())
            made.append(action)
        self.addActions(made)
        return tuple(made)

    def _close_current(self) -> None:
        self.close_tab(self.bar.currentIndex())

    def _add(self, page: LaunchPage | None, state: Mapping[str, Any], at: int | None = None) -> int:
        index = len(self._documents) if at is None else at
        self._documents.insert(index, OpenDocument(page, state))
        self.bar.insertTab(index, _NEW)
        self.bar.setTabButton(index, QTabBar.ButtonPosition.RightSide, self._close_button())
        self._name(index)
        self._show_count()
        return index

    def _close_button(self) -> SmallButton:
        button = SmallButton(self._theme, "close", "Close (Ctrl+W)")
        button.setAutoRaise(True)
        button.clicked.connect(lambda: self.close_tab(self._index_of(button)))
        return button

    def _index_of(self, button: SmallButton) -> int:
        side = QTabBar.ButtonPosition.RightSide
        return next(index for index in range(self.bar.count()) if self.bar.tabButton(index, side) is button)

    def _show_count(self) -> None:
        """Leave the keys to other tabs while there is one document."""
        for action in self._actions[1:]:
            action.setEnabled(self.bar.count() > 1)

    def _restore(self, page: LaunchPage, state: Mapping[str, Any]) -> None:
        """Restore a page; all share the recent files."""
        page.restore_state({**state, "recent": self._recent.save_state()})
        self._renamed(page)

    def _made(self, document: OpenDocument) -> LaunchPage:
        """Return the page of a tab; create it when it is shown first."""
        if document.page is None:
            page = LaunchPage(
                self._theme,
                self._operations,
                self._home,
                drafts=self._drafts,
                logins=self._logins,
                new_tab=self.new_tab,
            )
            document.page = page
            page.file.recent = self._recent
            page.files.elsewhere = lambda path: self._open_elsewhere(page, path)
            page.run_started.connect(self.run_started)
            page.windowTitleChanged.connect(lambda _title: self._renamed(page))
            page.file.status_changed.connect(lambda: self._renamed(page))
            self._stack.addWidget(page)
            if document.state:
                self._restore(page, document.state)
        return document.page

    def _empty_page(self) -> LaunchPage:
        """Show a tab without a document, and return its page."""
        empty = (index for index, each in enumerate(self._documents) if _is_empty(each))
        index = next(empty, None)
        self.bar.setCurrentIndex(self._add(None, {}) if index is None else index)
        return self.current

    def _open_elsewhere(self, page: LaunchPage, path: Path) -> bool:
        """Show the tab that has the file, or open it in a new one; return False if `page` is to take it."""
        for index, each in enumerate(self._documents):
            if _path_of(each) == path.absolute():
                if each.page is page and not page.has_begun:
                    return False  # a file that could not be read is tried again
                self.bar.setCurrentIndex(index)
                return True
        if not page.has_begun and page.unread is None:
            return False
        other = self._empty_page()
        other.open_path(path)
        return True

    def _remove(self, document: OpenDocument) -> None:
        index = next(index for index, each in enumerate(self._documents) if each is document)
        if self.bar.count() == 1:
            self._add(None, {})
        del self._documents[index]
        self.bar.removeTab(index)
        if (page := document.page) is not None:
            self._stack.removeWidget(page)
            page.left()
            page.closing()
            page.deleteLater()
        self._show_count()
        self._show_current()

    def _show_current(self) -> None:
        page = self.current
        before = self._stack.currentWidget()
        if before is not page:
            if self._is_entered and isinstance(before, LaunchPage):
                before.left()
            self._stack.setCurrentWidget(page)
            if self._is_entered:
                page.entered()
        page.start_page.show_recent(self._recent.paths)
        self.setWindowTitle(page.windowTitle())

    def _renamed(self, page: LaunchPage) -> None:
        index = next((index for index, each in enumerate(self._documents) if each.page is page), None)
        if index is None:
            return
        self._name(index)
        if index == self.bar.currentIndex():
            self.setWindowTitle(page.windowTitle())

    def _name(self, index: int) -> None:
        document = self._documents[index]
        name, is_saved = _name_of(document)
        self.bar.setTabText(index, control_text(name if is_saved else f"• {name}"))
        path = _path_of(document)
        where = "not in a file yet" if path is None else str(path)
        self.bar.setTabToolTip(index, plain_tip(where if is_saved else f"{where}, not saved"))


def _has_document(state: object) -> bool:
    document = state.get("document") if isinstance(state, Mapping) else None
    return isinstance(document, Mapping) and (isinstance(document.get("path"), str) or _has_text(state))


def _has_text(state: Any) -> bool:
    """Return whether the saved state of a document has text that is in no file."""
    return all(isinstance(state["document"].get(key), str) for key in ("text", "begun"))


def _unread(document: OpenDocument) -> Mapping[str, Any] | None:
    """Return the saved state of a document that its page has not read, or not yet."""
    return document.state.get("document") if document.page is None else document.page.unread


def _is_empty(document: OpenDocument) -> bool:
    """Return whether the tab has no document, and gets none."""
    has_begun = document.page is not None and document.page.has_begun
    return not has_begun and _unread(document) is None


def _name_of(document: OpenDocument) -> tuple[str, bool]:
    """Return the name of a tab, and whether its document is saved."""
    if document.page is not None and document.page.has_begun:
        return document.page.file.name, document.page.file.is_saved
    kept = _unread(document) or {}
    name = kept.get("name")
    return (name, kept.get("text") is None) if isinstance(name, str) else (_NEW, True)


def _path_of(document: OpenDocument) -> Path | None:
    if document.page is not None and document.page.has_begun:
        return document.page.document.path
    path = (_unread(document) or {}).get("path")
    return Path(path) if isinstance(path, str) else None
