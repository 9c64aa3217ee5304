"""Connections between pages: pages do not know each other, only the window does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, cast

from PySide6.QtCore import QObject, SignalInstance

from torchdeck.use_cases.opening.editor_choice import Editor
from torchdeck_app.widgets.page import Page
from torchdeck_app.window.page_stack import PageStack

LAUNCH, RUNS, NODES, QUEUE = "Launch", "Runs", "Nodes", "Queue"


class Launches(Protocol):
    """Interface of the Launch page as used by the window."""

    run_started: SignalInstance
    """Emitted with the run's id."""

    def open_path(self, path: Path) -> None: ...

    def open_text(self, text: str, path: Path | None, name: str) -> None: ...


class ShowsRuns(Protocol):
    """Interface of the Runs page as used by the window."""

    clone_asked: SignalInstance
    """Emitted with the text of a run file and the source of the clone."""

    launch_asked: SignalInstance
    """Emitted if there are no runs yet, to show the Launch page."""

    @property
    def run_in_sight(self) -> str: ...

    def open_run(self, run_id: str) -> None: ...

    def stop_run(self, run_id: str) -> None: ...

    def use_editor(self, editor: Callable[[], Editor]) -> None: ...


class NamesRuns(Protocol):
    """Interface of the Nodes page as used by the window."""

    run_asked: SignalInstance
    """Emitted with the id of the run that holds a device."""

    stop_asked: SignalInstance
    """Emitted with the id of a run to stop."""


class LeadsToRuns(Protocol):
    """Interface of the Queue page as used by the window."""

    run_asked: SignalInstance
    """Emitted with the id of a run that the queue started."""

    launch_asked: SignalInstance
    """Emitted to show the Launch page, where runs are added."""


class Connections(QObject):
    """Router that shows the right page and hands it the request once it is created."""

    def __init__(self, stack: PageStack, editor: Callable[[], Editor] = Editor) -> None:
        """Connect pages once they are made; `editor` returns the one that the user has chosen."""
        super().__init__(stack)
        self._editor = editor
        self._stack = stack
        stack.made.connect(self._connect)

    def open_run(self, run_id: str) -> None:
        """Show one run."""
        self._stack.show_page(RUNS)
        self._stack.when_made(RUNS, lambda place: cast("ShowsRuns", place).open_run(run_id))

    def stop_run(self, run_id: str) -> None:
        """Stop a run after its step; the page stays."""
        self._stack.when_made(RUNS, lambda place: cast("ShowsRuns", place).stop_run(run_id))

    def run_in_sight(self) -> str:
        """Return the id of the run whose page is visible; empty if there is none."""
        place = self._stack.places.get(RUNS)
        looks = place is not None and place.isVisible() and place.window().isActiveWindow()
        return cast("ShowsRuns", place).run_in_sight if looks else ""

    def open_path(self, path: Path) -> None:
        """Edit a run file, or a new one for a script."""
        self._stack.show_page(LAUNCH)
        self._stack.when_made(LAUNCH, lambda place: cast("Launches", place).open_path(path))

    def clone(self, text: str, name: str) -> None:
        """Edit a copy of a run's file."""
        self._stack.show_page(LAUNCH)
        self._stack.when_made(LAUNCH, lambda place: cast("Launches", place).open_text(text, None, name))

    def _connect(self, name: str, place: Page) -> None:
        if name == LAUNCH:
            cast("Launches", place).run_started.connect(self.open_run)
        elif name == RUNS:
            runs = cast("ShowsRuns", place)
            runs.use_editor(self._editor)
            runs.clone_asked.connect(self.clone)
            runs.launch_asked.connect(lambda: self._stack.show_page(LAUNCH))
        elif name == NODES:
            nodes = cast("NamesRuns", place)
            nodes.run_asked.connect(self.open_run)
            nodes.stop_asked.connect(self.stop_run)
        elif name == QUEUE:
            queue = cast("LeadsToRuns", place)
            queue.run_asked.connect(self.open_run)
            queue.launch_asked.connect(lambda: self._stack.show_page(LAUNCH))
