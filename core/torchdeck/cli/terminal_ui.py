"""Terminal as the front end of a use case: progress line, questions, notes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.cli.progress_line import progress_line
from torchdeck.use_cases.ui import Phase, Progress

if TYPE_CHECKING:
    from torchdeck.agent.processes.detached_process import DetachedProcess
    from torchdeck.nodes.connector import Connector

WITHOUT_MEMORY: Mapping[Phase, str] = {Phase.MODEL: 'limits.memory = "off": without it'}


class TerminalUi:
    """Front end on the terminal; progress and notes go to standard error."""

    def __init__(
        self, hints: Mapping[Phase, str] | None = None, before_start: Callable[[], object] = lambda: None
    ) -> None:
        """Create the front end.

        Args:
            hints: how to continue without a slow operation.
            before_start: called before a run is made.
        """
        self._hints = hints or {}
        self._before_start = before_start

    def waiting(self, phase: Phase) -> AbstractContextManager[Progress]:
        """Show a progress line while waiting."""
        return progress_line(phase.value, self._hints.get(phase, ""))

    def connector(self, home: Path) -> Connector:
        """Return a connector that asks at the terminal, one question at a time."""
        from torchdeck.cli.nodes.asking import terminal_asker
        from torchdeck.cli.nodes.chosen import InTurn
        from torchdeck.nodes.connector import Connector

        return Connector(home, InTurn(terminal_asker(home)))

    def note(self, text: str) -> None:
        """Print a note on its own line."""
        print(f"torchdeck: {text}", file=sys.stderr)

    def check(self) -> None:
        """Do nothing: Ctrl-C ends the process."""

    def before_start(self) -> None:
        """Call the function that was passed."""
        self._before_start()

    def adopt(self, controller: DetachedProcess) -> None:
        """The watcher of the run reaps it."""
