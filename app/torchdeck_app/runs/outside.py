"""Opener of things of a run in the user's own programs; failures are reported by a signal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from PySide6.QtCore import QObject, Qt, QUrl, Signal
from PySide6.QtGui import QCursor, QDesktopServices
from PySide6.QtWidgets import QMenu, QWidget

from torchdeck.contract.layout import RunLayout
from torchdeck.runs.failures.code_place import CodePlace
from torchdeck.use_cases.opening.editor import EditorUrl
from torchdeck.use_cases.opening.editor_choice import Editor
from torchdeck.use_cases.opening.programs import Programs
from torchdeck.use_cases.opening.shell import open_terminal, run_shell, shell_nodes
from torchdeck.use_cases.opening.start import editor_at, start_editor
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.widgets.help import page_of
from torchdeck_app.widgets.labels import control_text

T = TypeVar("T")


class OutsidePrograms(QObject):
    """Opens editors and terminals for runs, off the GUI thread."""

    failed = Signal(str, str, str)
    """Emitted with a run's id, why nothing was opened, and the page of the documentation that helps."""

    def __init__(self, operations: Operations, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._operations = operations
        self.editor: Callable[[], Editor] = Editor
        """Returns the editor that the user has chosen."""
        self.programs = Programs()

    def open_source(self, layout: RunLayout, place: CodePlace, rank: int | None) -> None:
        """Open the editor at a place that the output of a rank names."""
        editor, run_id = self.editor(), layout.root.name

        def call() -> EditorUrl | None:
            found = editor_at(layout, place, rank, editor, self.programs)
            if isinstance(found, EditorUrl):
                return found
            start_editor(found, self.programs)
            return None

        self._run(layout, "opening the editor", call, lambda found: self._open_url(run_id, found))

    def ask_terminal(self, layout: RunLayout, owner: QWidget) -> None:
        """Open a terminal on the run's node; of several, the user chooses one in a menu."""

        def chosen(nodes: tuple[str, ...]) -> None:
            if len(nodes) == 1:
                self.open_terminal(layout, nodes[0])
            else:
                self.node_menu(layout, nodes, owner).popup(QCursor.pos())

        self._run(layout, "looking for the run's nodes", lambda: shell_nodes(layout), chosen)

    def node_menu(self, layout: RunLayout, nodes: Sequence[str], owner: QWidget) -> QMenu:
        """Create the menu of a run's nodes, which deletes itself."""
        menu = QMenu(owner)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.setAccessibleName("Open a terminal on")
        for node in nodes:
            menu.addAction(control_text(node), partial(self.open_terminal, layout, node))
        return menu

    def open_terminal(self, layout: RunLayout, node: str) -> None:
        """Open a terminal in the run's folder and Python environment on a node."""

        def call() -> None:
            open_terminal(run_shell(layout, node, self.programs), self.programs)

        self._run(layout, "opening a terminal", call, lambda _: None)

    def _run(self, layout: RunLayout, name: str, call: Callable[[], T], done: Callable[[T], None]) -> None:
        run_id = layout.root.name
        self._operations.run(
            name,
            lambda _progress, _cancel: call(),
            done=done,
            failed=lambda error: self.failed.emit(run_id, f"Nothing was opened: {error}", page_of(error)),
        )

    def _open_url(self, run_id: str, found: EditorUrl | None) -> None:
        if found is None:
            return
        url = QUrl.fromEncoded(found.url.encode("utf-8"), QUrl.ParsingMode.StrictMode)
        if not url.isValid() or not QDesktopServices.openUrl(url):
            why = (
                f"Nothing was opened: no program of this desktop opens {found.url}. Is the editor installed?"
            )
            self.failed.emit(run_id, why, "window#your-editor-and-terminal")
