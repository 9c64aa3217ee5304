"""A small file that is replaced whole, or overwritten: its newest content goes, in pieces, when it differs.

An empty one is about to be written, and is passed over.
"""

from __future__ import annotations

import os
from pathlib import Path

from torchdeck.agent.link.changes import ChangeWatch
from torchdeck.agent.link.growth import Put
from torchdeck.agent.link.names import Mirrored
from torchdeck.agent.link.open_file import open_plain
from torchdeck.agent.link.tails import Have, digest


class WholeFile:
    """One file that is another one each time.

    Attributes:
        path: relative to the run directory.
    """

    def __init__(self, root: Path, path: str, kind: Mirrored) -> None:
        self.path = path
        self.kind = kind
        self._root = root
        self._watch = ChangeWatch(str(root / path))
        self._theirs: str | None = None
        """Digest of what the other end has; None until it has said so."""
        self._sending = b""
        self._at = 0
        self._seen = False

    @property
    def offset(self) -> int | None:
        """None until the other end has said what it has."""
        return None if self._theirs is None else self._at

    @property
    def behind(self) -> int:
        """Bytes that the other end lacks, as far as was seen."""
        return len(self._sending) - self._at + (0 if self._seen else self._watch.size)

    def look(self) -> bool:
        """Whether there may be something to send. Raises OSError when the file is gone."""
        if self._watch.look():
            self._seen = False
        return not self._seen or bool(self._sending)

    def resume(self, theirs: Have) -> None:
        """Compare with what the other end has from now on."""
        self._theirs = theirs.whole
        self._sending, self._at = b"", 0
        self._seen = False

    def forget(self) -> None:
        """As `GrowingFile.forget`."""
        self._theirs = None
        self._sending, self._at = b"", 0
        self._seen = False

    def read(self, limit: int) -> Put | None:
        """The next piece, at most `limit` bytes; None when the other end has all.

        Raises:
            NotPlainError: there is a link in the file's place.
            OSError: it cannot be read.
            ValueError: it is too long.
        """
        if self._theirs is None or (not self._sending and not self._begin()):
            return None
        at = self._at
        data = self._sending[at : at + limit]
        self._at += len(data)
        last = self._at == len(self._sending)
        if last:
            self._sending, self._at = b"", 0
        return Put(at, data, last)

    def _begin(self) -> bool:
        """Take up the newest content; whether it differs from what was sent last."""
        if self._seen:
            return False
        descriptor, found = open_plain(self._root, self.path, os.O_RDONLY)
        try:
            # one more than it has: it may be longer now, and room for the longest costs more than reading
            content = os.pread(descriptor, min(found.st_size, self.kind.limit) + 1, 0)
        finally:
            os.close(descriptor)
        self._seen = True
        if len(content) > self.kind.limit:
            raise ValueError(f"{self.path} is longer than {self.kind.limit} bytes")
        theirs = digest(content)
        if theirs == self._theirs or not content:
            return False
        self._theirs, self._sending, self._at = theirs, content, 0
        return True
