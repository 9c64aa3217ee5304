"""Ownership of a run: the controller with the highest epoch in its lock file.

A controller acts only while it holds the file's lock and the file contains its own epoch. A later controller
can therefore take over the run at any time, and never interrupts the earlier one during an action.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torchdeck.contract.layout import FORMAT_VERSION
from torchdeck.contract.lock_file import locked
from torchdeck.contract.processes import ProcessIdentity

LOCK_SIZE = 4096


class SupersededError(Exception):
    """A later controller has taken the run."""

    def __init__(self, by: ProcessIdentity | None) -> None:
        super().__init__("another controller has taken this run")
        self.by = by


class ControllerEpoch:
    """This controller's claim on a run."""

    def __init__(self, path: Path, identity: ProcessIdentity) -> None:
        """Take the run from its current controller; raises OSError if the lock file cannot be written."""
        self._path = path
        with locked(path) as file:
            self.number = _read(file)[0] + 1
            content = {"v": FORMAT_VERSION, "epoch": self.number, "identity": identity.to_json()}
            os.pwrite(file, json.dumps(content).encode().ljust(LOCK_SIZE), 0)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the run for the duration of one action.

        Raises:
            SupersededError: a later controller has the run, or its lock file is gone.
        """
        with locked(self._path) as file:
            number, by = _read(file)
            if number != self.number:
                raise SupersededError(by)
            yield

    def check(self) -> None:
        """Raise SupersededError if a later controller has the run."""
        try:
            content = self._path.read_bytes()
        except OSError:
            raise SupersededError(None) from None
        number, by = _parsed(content)
        if number > self.number:
            raise SupersededError(by)


def _read(file: int) -> tuple[int, ProcessIdentity | None]:
    return _parsed(os.pread(file, LOCK_SIZE, 0))


def _parsed(content: bytes) -> tuple[int, ProcessIdentity | None]:
    try:
        value = json.loads(content)
        return int(value["epoch"]), ProcessIdentity.from_json(value["identity"])
    except (ValueError, TypeError, KeyError):
        return 0, None
