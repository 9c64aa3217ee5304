"""Hand on an agent's bootstrap payload to a controller that took the run over and knows no token.

The controller makes a named pipe in the node's inbox, which only the user can enter, and reads from it; the
agent writes its one line into it. Nothing of that touches a disk.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from pathlib import Path

from torchdeck.agent.attempt.handover import Handover

_NAME = re.compile(r"handover-[0-9a-f]{32}\.pipe")
_MOST = 64 * 1024
"""Bytes of a handover: what a pipe takes."""


class HandoverAsk:
    """One question to the agent of a node; `close` it.

    Raises:
        OSError: no pipe can be made in the inbox.
    """

    def __init__(self, inbox: Path) -> None:
        inbox.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = inbox / f"handover-{os.urandom(16).hex()}.pipe"
        self._content = b""
        # it gets its name once it is read from: an agent that polls before would remove it as abandoned
        unnamed = inbox / f".{self._path.name}"
        os.mkfifo(unnamed, 0o600)
        try:
            self._reading = os.open(unnamed, os.O_RDONLY | os.O_NONBLOCK)
            try:
                unnamed.rename(self._path)
            except OSError:
                os.close(self._reading)
                raise
        except OSError:
            unnamed.unlink(missing_ok=True)
            raise

    def read(self) -> bytes | None:
        """The agent's line; None while it has not come."""
        with contextlib.suppress(BlockingIOError):
            self._content += os.read(self._reading, _MOST)
        return self._content if self._content.endswith(b"\n") else None

    def close(self) -> None:
        """The pipe is gone afterwards."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
        os.close(self._reading)


def remove_unread(inbox: Path) -> None:
    """Remove the pipes of those who were killed while they asked; an agent that lives does so, too."""
    for path in _pipes(inbox):
        with contextlib.suppress(OSError):
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))
            except OSError as error:
                if error.errno != errno.ENXIO:  # no reader
                    raise
                path.unlink(missing_ok=True)


def hand_on(inbox: Path, handover: Handover) -> None:
    """Answer all requests in `inbox`; remove pipes without a reader."""
    for path in _pipes(inbox):
        with contextlib.suppress(OSError):
            try:
                _answer(path, handover.line())
            finally:
                path.unlink(missing_ok=True)


def _pipes(inbox: Path) -> list[Path]:
    try:
        return [path for path in inbox.iterdir() if _NAME.fullmatch(path.name)]
    except OSError:
        return []


def _answer(path: Path, line: bytes) -> None:
    # without a reader this fails at once
    writing = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        found = os.fstat(writing)
        # a file in its place would keep what is written
        if stat.S_ISFIFO(found.st_mode) and found.st_uid == os.geteuid():
            os.write(writing, line)
    finally:
        os.close(writing)
