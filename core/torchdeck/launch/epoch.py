"""Which controller has a run: the one with the highest epoch in its lock file.

A controller acts only while it holds the file's lock and its own epoch stands in it, so a later one can take
the run at any time and never finds the earlier in mid-action.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torchdeck.rundir.layout import FORMAT_VERSION
from torchdeck.rundir.processes import ProcessIdentity

LOCK_SIZE = 4096
LOCK_LIMIT = 20.0
"""Seconds to wait for somebody else's action to end."""


class SupersededError(Exception):
    """A later controller has taken the run."""

    def __init__(self, by: ProcessIdentity | None) -> None:
        super().__init__("another controller has taken this run")
        self.by = by


class ControllerEpoch:
    """This controller's claim on a run."""

    def __init__(self, path: Path, identity: ProcessIdentity) -> None:
        """Take the run from whoever has it; raises OSError when the lock file cannot be written."""
        self._path = path
        with _locked(path) as file:
            self.number = _read(file)[0] + 1
            content = {"v": FORMAT_VERSION, "epoch": self.number, "identity": identity.to_json()}
            os.pwrite(file, json.dumps(content).encode().ljust(LOCK_SIZE), 0)

    @contextmanager
    def held(self) -> Iterator[None]:
        """For the time of one action.

        Raises:
            SupersededError: a later controller has the run, or its lock file is gone.
        """
        with _locked(self._path) as file:
            number, by = _read(file)
            if number != self.number:
                raise SupersededError(by)
            yield

    def check(self) -> None:
        """Raises SupersededError when a later controller has the run."""
        try:
            content = self._path.read_bytes()
        except OSError:
            raise SupersededError(None) from None
        number, by = _parsed(content)
        if number > self.number:
            raise SupersededError(by)


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        lock_within(file, path, LOCK_LIMIT)
        yield file
    finally:
        os.close(file)


def lock_within(file: int, path: Path, seconds: float) -> None:
    """Take the lock of the open `file`, which others hold for the time of one small action.

    Raises:
        TimeoutError: somebody, who stands still it seems, has it longer than `seconds`.
    """
    limit = time.monotonic() + seconds
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > limit:
                raise TimeoutError(
                    errno.ETIMEDOUT, f"another process has held the lock for {seconds:g} s", str(path)
                ) from None
            time.sleep(0.005)


def _read(file: int) -> tuple[int, ProcessIdentity | None]:
    return _parsed(os.pread(file, LOCK_SIZE, 0))


def _parsed(content: bytes) -> tuple[int, ProcessIdentity | None]:
    try:
        value = json.loads(content)
        return int(value["epoch"]), ProcessIdentity.from_json(value["identity"])
    except (ValueError, TypeError, KeyError):
        return 0, None
