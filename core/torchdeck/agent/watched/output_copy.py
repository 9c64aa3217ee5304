"""Copies the output of a watched training from its file to the logs of its rank."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from torchdeck.contract.bounded_file import UnreadableFileError, open_regular
from torchdeck.contract.processes import PROC
from torchdeck.contract.rank_layout import RankLayout

CHUNK = 4 * 1024 * 1024
"""Bytes that are copied per look."""
FIRST = 256 * 1024 * 1024
"""Bytes at the end of a log that is longer when the watch begins."""
_OUTPUT = (".log", ".out")
_ERRORS = (".err",)
_ENTRIES = 1000


class OutputCopy:
    """Follows one log; the copy is kept if the log is deleted."""

    def __init__(self, source: Path, target: Path) -> None:
        self.source = source
        self._target = target
        self._skipped: int | None = None
        """Bytes of the log that are not in the copy, less those in the copy of what the log had before."""
        self._inode = 0

    def look(self) -> float:
        """Copy what was appended, within limits; return when that was, unix seconds, or 0 for nothing."""
        try:
            with open_regular(self.source) as log, self._target.open("ab") as copy:
                found = os.fstat(log.fileno())
                if self._skipped is None:
                    self._skipped = max(0, found.st_size - FIRST) if copy.tell() == 0 else 0
                begin = self._skipped + copy.tell()
                if found.st_size < begin or self._inode not in (0, found.st_ino):
                    begin, self._skipped = 0, -copy.tell()  # truncated, or another file of that name
                self._inode = found.st_ino
                if found.st_size <= begin:
                    return 0.0
                copy.write(os.pread(log.fileno(), CHUNK, begin))
        except (OSError, UnreadableFileError):
            return 0.0
        with contextlib.suppress(OSError):  # lines of the time before the watch have that of the log
            os.utime(self._target, ns=(found.st_mtime_ns, found.st_mtime_ns))
        return found.st_mtime


class WatchedOutput:
    """stdout and stderr of a process, or the newest logs in a folder."""

    def __init__(self, rank: RankLayout, folder: Path, pid: int, since: float) -> None:
        """Follow.

        Args:
            rank: whose logs are written.
            folder: of the training.
            pid: of its process; 0 if unknown.
            since: unix seconds; logs that were written last before are not this training's.
        """
        self._rank, self._folder, self._pid, self._since = rank, folder, pid, since
        self._copies: dict[Path, OutputCopy] = {}
        """Log of the rank → its copy."""

    def look(self) -> float:
        """Copy what is new; return when it was written, unix seconds, or 0 for nothing."""
        if len(self._copies) < 2:
            for source, target in self._of_process() if self._pid else self._in_folder():
                known = {copy.source for copy in self._copies.values()}
                if target not in self._copies and source not in known:
                    self._copies[target] = OutputCopy(source, target)
        return max([copy.look() for copy in self._copies.values()], default=0.0)

    def _of_process(self) -> Iterator[tuple[Path, Path]]:
        for descriptor, target in ((1, self._rank.stdout), (2, self._rank.stderr)):
            link = PROC / f"{self._pid}/fd/{descriptor}"
            try:
                source = Path(os.readlink(link))  # noqa: PTH115 - a path in /proc, not a link of ours
                if stat.S_ISREG(link.stat().st_mode):
                    yield source, target
            except OSError:
                continue

    def _in_folder(self) -> Iterator[tuple[Path, Path]]:
        for suffixes, target in ((_OUTPUT, self._rank.stdout), (_ERRORS, self._rank.stderr)):
            found = newest_log(self._folder, suffixes, self._since)
            if found is not None:
                yield found, target


def newest_log(folder: Path, suffixes: tuple[str, ...], since: float) -> Path | None:
    """Return the log in a folder that was written last, of those that were written after `since`."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry, _ in zip(entries, range(_ENTRIES), strict=False):
                if entry.name.endswith(suffixes) and entry.is_file(follow_symlinks=False):
                    found.append((entry.stat().st_mtime, entry.path))
    except OSError:
        return None
    changed, path = max(found, default=(0.0, ""))
    return Path(path) if path and changed >= since else None
