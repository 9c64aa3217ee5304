"""Bootstrap payload of an agent, on standard input and nowhere else: token, leader's address, secrets.

It is one line of JSON, `{"token": text, "lead": {"address", "port"} | null, "secrets": {name: value},
"resume_args": [text]}`, the last only if there are any; or empty if a run on one node has no secrets. It
stays in memory: the shim hands it to the next agent.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import select
import stat
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

READ_LIMIT = 30.0
"""Seconds in which whoever started this process must have written all of it."""
LINE_LIMIT = 2**20
"""Most bytes of it: a pipe takes 64 KiB, and no controller sends more than fits."""


class HandoverError(ValueError):
    """Invalid bootstrap payload on standard input; the message says what is wrong."""


class MissingSecretError(Exception):
    """A rank needs a secret that was not handed over; the message names it."""


class Handover(NamedTuple):
    """Bootstrap payload of an agent."""

    token: str = ""
    leader: tuple[str, int] | None = None
    """Where the leader listens: (address, port); None at the leader itself, or on one node."""
    secrets: Mapping[str, str] = {}
    resume_args: tuple[str, ...] = ()
    """Arguments with which a script continues, as `runs resume ID -- ARGS` was given them."""

    def line(self) -> bytes:
        """Return it as JSON for the next agent; empty if there is none."""
        if self == NOTHING:
            return b""
        leader = None if self.leader is None else {"address": self.leader[0], "port": self.leader[1]}
        value: dict[str, Any] = {"token": self.token, "lead": leader, "secrets": dict(self.secrets)}
        if self.resume_args:
            value["resume_args"] = list(self.resume_args)
        return json.dumps(value).encode() + b"\n"

    def values(self, names: Iterable[str]) -> dict[str, str]:
        """The secrets of these names.

        Raises:
            MissingSecretError: one was not handed over.
        """
        missing = [name for name in names if name not in self.secrets]
        if missing:
            raise MissingSecretError(
                f"secret {', '.join(missing)} has no value here: resume the run from a shell that has it"
            )
        return {name: self.secrets[name] for name in names}


NOTHING = Handover()


def read_handover() -> Handover:
    """Read standard input; return `NOTHING` if it is empty.

    Raises:
        HandoverError: nothing arrives, not even its end; it is invalid, or does not end.
    """
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return NOTHING
    return handover_from(_line(sys.stdin.fileno()))


def _line(reading: int) -> bytes:
    """Read up to the end of a line, or to the end of input; within both limits."""
    until = time.monotonic() + READ_LIMIT
    content = bytearray()
    while b"\n" not in content:
        if not select.select([reading], [], [], max(0.0, until - time.monotonic()))[0]:
            if content:
                raise HandoverError(f"the line on standard input did not end within {READ_LIMIT:.0f} s")
            raise HandoverError(f"standard input was silent for {READ_LIMIT:.0f} s and was not closed")
        piece = os.read(reading, LINE_LIMIT)
        content += piece
        if len(content) > LINE_LIMIT:
            raise HandoverError(f"the line on standard input has more than {LINE_LIMIT >> 10} KiB")
        if not piece:
            break
    return bytes(content.partition(b"\n")[0])


def handover_from(line: bytes) -> Handover:
    """One line of standard input, checked. Raises HandoverError, which shows nothing of it."""
    if not line.strip():
        return NOTHING
    try:
        value = json.loads(line)
    except ValueError as error:
        raise HandoverError("standard input is not one line of JSON") from error
    if not isinstance(value, dict):
        raise HandoverError("standard input is not a JSON object")
    token, leader, secrets = value.get("token", ""), value.get("lead"), value.get("secrets", {})
    texts = isinstance(secrets, dict) and all(isinstance(text, str) for text in secrets.values())
    if not isinstance(token, str) or not texts:
        raise HandoverError("token is a text, and secrets an object of texts")
    arguments = value.get("resume_args", [])
    if not isinstance(arguments, list) or not all(isinstance(text, str) for text in arguments):
        raise HandoverError("resume_args is a list of texts")
    return Handover(token, None if leader is None else _address(leader), secrets, tuple(arguments))


def _address(leader: Any) -> tuple[str, int]:
    address = leader.get("address") if isinstance(leader, dict) else None
    port = leader.get("port") if isinstance(leader, dict) else None
    if not isinstance(address, str) or type(port) is not int or not 0 < port < 65536:
        raise HandoverError("lead is an object of an address and a port, or null")
    return address, port


# Hand on an agent's bootstrap payload to a controller that took the run over and knows no token.
#
# The controller makes a named pipe in the node's inbox, which only the user can enter, and reads from it;
# the agent writes its one line into it. Nothing of that touches a disk.

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
    """Remove the pipes of processes that were killed during a request; a live agent also does this."""
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
