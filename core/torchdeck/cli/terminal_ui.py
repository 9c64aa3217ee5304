"""Terminal as the front end of a use case: progress line, questions, notes."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.cli.output import unguarded
from torchdeck.shown_text import shown
from torchdeck.use_cases.ui import Phase, Progress

if TYPE_CHECKING:
    from torchdeck.agent.processes.detached_process import DetachedProcess
    from torchdeck.cli.terminal_asker import Around
    from torchdeck.nodes.connector import Connector


WITHOUT_MEMORY: Mapping[Phase, str] = {Phase.MODEL: 'limits.memory = "off": without it'}


class TerminalUi:
    """Front end on the terminal; progress and notes go to standard error."""

    def __init__(
        self,
        hints: Mapping[Phase, str] | None = None,
        before_start: Callable[[], object] = lambda: None,
        around: Around = nullcontext,
    ) -> None:
        """Create the front end.

        Args:
            hints: how to continue without a slow operation.
            before_start: called before a run is made.
            around: context around each question, such as one that hides a live display.
        """
        self._hints = hints or {}
        self._around = around
        self._before_start = before_start

    def waiting(self, phase: Phase) -> AbstractContextManager[Progress]:
        """Show a progress line while waiting."""
        return progress_line(phase.value, self._hints.get(phase, ""))

    def connector(self, home: Path) -> Connector:
        """Return a connector that asks at the terminal, one question at a time."""
        from torchdeck.cli.terminal_asker import InTurn, terminal_asker
        from torchdeck.nodes.connector import Connector

        return Connector(home, InTurn(terminal_asker(home), self._around))

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


# Progress line on standard error, removed when the operation is over.

WIDEST = 79
HINT_AFTER = 10.0
"""Seconds before a hint is printed on how to continue without waiting."""
_TICK = 1.0


@contextlib.contextmanager
def progress_line(what: str, hint: str = "") -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the progress of `what`: in place on a terminal; elsewhere `what` is printed
    once.

    Args:
        what: the operation waited for.
        hint: how to continue without it, shown after `HINT_AFTER` seconds with what is being counted.
    """
    line = _Line(what, hint)
    try:
        yield line.say
    finally:
        line.end()


class _Line:
    """Status line, redrawn every second by a thread that the first word starts."""

    def __init__(self, what: str, hint: str) -> None:
        self._what, self._hint = what, hint
        self._in_place = sys.stderr.isatty()
        self._text = ""
        self._since = 0.0
        self._over = threading.Event()
        self._ticking: threading.Thread | None = None

    def say(self, text: str) -> None:
        self._text = text
        if self._ticking is None:
            self._since = time.monotonic()
            if not self._in_place:
                _write(f"torchdeck: {self._what}\n")
            self._ticking = threading.Thread(target=self._tick, name="progress line", daemon=True)
            self._ticking.start()

    def end(self) -> None:
        self._over.set()
        if self._ticking is not None:
            self._ticking.join()
            if self._in_place:
                _write("\r" + " " * WIDEST + "\r")

    def _tick(self) -> None:
        if self._in_place:
            self._draw()
            while not self._over.wait(_TICK):
                self._draw()
        elif not self._over.wait(HINT_AFTER):
            hint = f"Ctrl-C cancels; {self._hint}" if self._hint else "Ctrl-C cancels"
            _write(f"torchdeck: still {self._what}: {self._text} ({hint})\n")

    def _draw(self) -> None:
        seconds = time.monotonic() - self._since
        end = f", {seconds:.0f} s" if seconds >= _TICK else ""
        if self._hint and seconds >= HINT_AFTER:
            end += f" ({self._hint})"
        room = WIDEST - len(end)
        _write(f"\r{shown(f'{self._what}: {self._text}')[:room] + end:<{WIDEST}}")


def _write(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # no one reads it any more
        unguarded(sys.stderr).write(text)
        sys.stderr.flush()
