"""A moment of a save at which its process is killed."""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

_WRITES = ("open", "os.mkdir", "os.rename", "os.truncate")


class FaultPoint:
    """Counts what this process does to files in `folder`; kills it before the `at`th (0: only counts).

    A sync counts wherever it is: before it, files may be written and not on disk.
    """

    def __init__(self, folder: Path, at: int = 0) -> None:
        self.count = 0
        self._at = at
        self._folder = str(folder)
        sys.addaudithook(self._see)
        self._fsync = os.fsync  # of which there is no event
        os.fsync = self._sync

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        # rmtree names what it removes relative to an open folder, so removals count wherever they are
        removal = event in ("os.remove", "os.rmdir")
        named = (str(item) for item in arguments if isinstance(item, (str, os.PathLike)))
        if not removal and not (event in _WRITES and any(self._folder in name for name in named)):
            return
        self._moment()

    def _sync(self, fd: FileDescriptorLike) -> None:
        self._moment()
        self._fsync(fd)

    def _moment(self) -> None:
        self.count += 1
        if self.count == self._at:
            os.kill(os.getpid(), signal.SIGKILL)


def moments(totals: list[int], count: str, seed: str, *, last: int | None = None) -> list[tuple[int, int]]:
    """(rank, at) to be killed at: a sample of `count`, or `all`.

    Args:
        totals: what a `FaultPoint` counted in each rank that was not killed.
        count: how many, or `all`.
        seed: of the sample.
        last: sample among so many of each rank's last ones.
    """
    every = [(victim, at) for victim, total in enumerate(totals) for at in range(1, total + 1)]
    if count == "all":
        return every
    sampler = random.Random(int(seed))  # noqa: S311 - a fixed sample
    late = [(victim, at) for victim, at in every if last is None or totals[victim] - at < last]
    return sorted(sampler.sample(late, int(count)))
