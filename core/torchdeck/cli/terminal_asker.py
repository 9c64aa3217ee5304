"""Asking a person at the terminal what a connection needs."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchdeck.nodes.ssh.credentials import Asker
    from torchdeck.nodes.ssh.target import SshTarget


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
