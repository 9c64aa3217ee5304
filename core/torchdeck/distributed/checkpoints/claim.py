"""Who writes into a checkpoint directory now, as a file in it. Standard library only.

A lock alone is not enough: some file systems have none, and a file server takes the lock from a node that it
has not heard of for a while and gives it to the next, while ranks live on there (launch.unattended =
"continue"). They notice by this file, before they commit or delete anything.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import socket
from pathlib import Path

from torchdeck.contract.atomic import write_bytes
from torchdeck.contract.checkpoints.manifest import CheckpointError

CLAIM_NAME = ".writer"


class Claim:
    """What one writer left in `directory`; the last one to leave it is right."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / CLAIM_NAME
        self._mine: bytes | None = None
        self._wanted_for: str | None = None
        """The run of a writer that found no room to say that it is there."""

    def take(self, run_id: str) -> None:
        """Become the writer, whoever was it before; on a full disk nobody is, so that room can be made there.

        Raises:
            OSError: the directory cannot be written to.
        """
        said = {"run_id": run_id, "host": socket.gethostname(), "pid": os.getpid()}
        mine = json.dumps({**said, "token": secrets.token_hex(8)}).encode()
        try:
            write_bytes(self._path, mine)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._path.unlink(missing_ok=True)  # who was it before finds that it is not any more
            self._wanted_for = run_id
            return
        self._mine, self._wanted_for = mine, None

    def check(self) -> None:
        """Do nothing while the directory is still ours, or never was claimed.

        Raises:
            CheckpointError: somebody else has opened it since.
            OSError: it cannot be read.
        """
        if self._mine is None:
            self._take_late()
            return
        found = self._path.read_bytes()
        if found != self._mine:
            raise self._taken(found)

    def _take_late(self) -> None:
        """There was no room for a claim: there may be now, unless somebody else has come since."""
        if self._wanted_for is None:
            return
        if self._path.exists():
            raise self._taken(self._path.read_bytes())
        self.take(self._wanted_for)

    def _taken(self, by: bytes) -> CheckpointError:
        return CheckpointError(
            f"another process has begun to save into {self._path.parent} since ({_describe(by)}): "
            "this one saves nothing there any more"
        )


def _describe(claim: bytes) -> str:
    try:
        said = json.loads(claim)
        return f"run {said['run_id']}, pid {said['pid']} on {said['host']}"
    except (ValueError, KeyError, TypeError):
        return "it does not say who"
