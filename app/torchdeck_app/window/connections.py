"""What places ask of each other: they do not know one another, the window does."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, cast

from PySide6.QtCore import QObject, SignalInstance

from torchdeck_app.widgets.page import Page
from torchdeck_app.window.page_stack import PageStack

LAUNCH, RUNS, NODES = "Launch", "Runs", "Nodes"


class Launches(Protocol):
    """What the window knows of the Launch place."""

    run_started: SignalInstance
    """With the run's id."""

    def open_path(self, path: Path) -> None: ...

    def open_text(self, text: str, path: Path | None, name: str) -> None: ...


class ShowsRuns(Protocol):
    """What the window knows of the Runs place."""

    clone_asked: SignalInstance
    """With the text of a run file, and what it is a clone of."""

    launch_asked: SignalInstance
    """Nothing was ever run: show where that is done."""

    @property
    def run_in_sight(self) -> str: ...

    def open_run(self, run_id: str) -> None: ...


class NamesRuns(Protocol):
    """What the window knows of the Nodes place."""

    run_asked: SignalInstance
    """With the id of the run that holds a device."""


class Connections(QObject):
    """Brings the right place into sight, and hands it what was asked for once it is made."""

    def __init__(self, stack: PageStack) -> None:
        super().__init__(stack)
        self._stack = stack
        stack.made.connect(self._connect)

    def open_run(self, run_id: str) -> None:
        """Show one run."""
        self._stack.show_page(RUNS)
        self._stack.when_made(RUNS, lambda place: cast("ShowsRuns", place).open_run(run_id))

    def run_in_sight(self) -> str:
        """The id of the run whose page somebody looks at; empty where there is none."""
        place = self._stack.places.get(RUNS)
        looks = place is not None and place.isVisible() and place.window().isActiveWindow()
        return cast("ShowsRuns", place).run_in_sight if looks else ""

    def open_path(self, path: Path) -> None:
        """Edit a run file, or what would run a script."""
        self._stack.show_page(LAUNCH)
        self._stack.when_made(LAUNCH, lambda place: cast("Launches", place).open_path(path))

    def clone(self, text: str, source: str) -> None:
        """Edit a copy of what was run."""
        self._stack.show_page(LAUNCH)
        self._stack.when_made(LAUNCH, lambda place: cast("Launches", place).open_text(text, None, source))

    def _connect(self, name: str, place: Page) -> None:
        if name == LAUNCH:
            cast("Launches", place).run_started.connect(self.open_run)
        elif name == RUNS:
            runs = cast("ShowsRuns", place)
            runs.clone_asked.connect(self.clone)
            runs.launch_asked.connect(lambda: self._stack.show_page(LAUNCH))
        elif name == NODES:
            cast("NamesRuns", place).run_asked.connect(self.open_run)
