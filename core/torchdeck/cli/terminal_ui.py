"""Terminal as the front end of a use case: progress line, questions, notes."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.cli.output import unguarded
from torchdeck.shown_text import shown
from torchdeck.use_cases.ui import Phase, Progress

if TYPE_CHECKING:
    from torchdeck.agent.processes.detached_process import DetachedProcess
    from torchdeck.nodes.connector import Connector
    from torchdeck.nodes.ssh.credentials import Asker
    from torchdeck.nodes.ssh.target import SshTarget


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


Around = Callable[[], AbstractContextManager[object]]
"""Context around a question: a live display must give way to it."""


def terminal_asker(home: Path) -> Asker:
    """Return an asker that reads the user's entries of the keyring, and prompts at the terminal for the rest.

    Without a terminal there is no prompt.

    Args:
        home: Torchdeck's.
    """
    from torchdeck.nodes.ssh.credentials import NoAsker
    from torchdeck.nodes.ssh.keyring_store import Keyring, KeyringAsker

    # a stream is None where a shell has closed it
    is_there = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
    person = TerminalAsker() if is_there else NoAsker()
    return KeyringAsker(Keyring(home), person)


class TerminalAsker:
    """Questions go to the terminal, not to standard output, and what is secret is not shown."""

    def password(self, target: SshTarget, *, again: bool) -> str | None:
        """Nothing typed, or Ctrl-D, is to do without."""
        return _secret(f"{'Wrong. ' if again else ''}Password of {target.user}@{target.host}: ")

    def passphrase(self, path: Path, *, again: bool) -> str | None:
        """Nothing typed, or Ctrl-D, is to do without."""
        return _secret(f"{'Wrong. ' if again else ''}Passphrase of {path}: ")

    def trust(self, target: SshTarget, key_type: str, fingerprint: str) -> bool:
        """Only a yes counts."""
        print(
            f"{target.name}: host key of {target.host}, port {target.port}, not verified:",
            file=sys.stderr,
        )
        print(f"  {key_type} {fingerprint}", file=sys.stderr)
        print("Is it the right one? (yes/no) ", end="", file=sys.stderr, flush=True)
        return _line().strip().lower() in ("yes", "y")


class InTurn:
    """Passes on one question at a time, as many nodes are connected to at once."""

    def __init__(self, asker: Asker, around: Around = nullcontext) -> None:
        self._asker = asker
        self._around = around
        self._lock = threading.Lock()

    def password(self, target: SshTarget, *, again: bool) -> str | None:
        with self._lock, self._around():
            return self._asker.password(target, again=again)

    def passphrase(self, path: Path, *, again: bool) -> str | None:
        with self._lock, self._around():
            return self._asker.passphrase(path, again=again)

    def trust(self, target: SshTarget, key_type: str, fingerprint: str) -> bool:
        with self._lock, self._around():
            return self._asker.trust(target, key_type, fingerprint)


def _secret(prompt: str) -> str | None:
    from getpass import getpass

    from torchdeck.shown_text import shown

    with _shown_again():
        try:
            return getpass(shown(prompt)) or None  # it writes to the terminal itself
        except EOFError:
            return None


def _line() -> str:
    """One line of standard input, past Python's buffer: its lock, held in a thread, is fatal at the exit."""
    read = b""
    while not read.endswith(b"\n") and (more := os.read(sys.stdin.fileno(), 1)):
        read += more
    return read.decode(errors="replace")


@contextmanager
def _shown_again() -> Iterator[None]:
    """Restore the terminal's echo after the block, also if the process ends while it waits in a thread."""
    import termios

    terminal = sys.stdin.fileno()
    try:
        before = termios.tcgetattr(terminal)
    except termios.error:
        yield
        return
    restore = partial(termios.tcsetattr, terminal, termios.TCSADRAIN, before)
    atexit.register(restore)
    try:
        yield
    finally:
        atexit.unregister(restore)
