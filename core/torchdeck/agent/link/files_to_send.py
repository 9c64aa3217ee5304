"""All files of a run that are mirrored from a node: which have something to send, and what comes next."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from torchdeck.agent.link.file_search import RECENT, Finder
from torchdeck.agent.link.mirrored_file import (
    ChangeWatch,
    Cut,
    GrowingFile,
    Have,
    NotPlainError,
    Put,
    digest,
    open_plain,
)
from torchdeck.agent.link.names import NOTHING, Level, Mirrored, Way
from torchdeck.contract.byte_size import size
from torchdeck.contract.metrics.segment_format import HEADER_LIMIT, SegmentError, SegmentHeader, decode_header

# A small file that is replaced whole, or overwritten: its newest content goes, in pieces, when it differs.
#
# An empty one is about to be written, and is passed over.


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
        """Digest of the peer's content; None until it is known."""
        self._sending = b""
        self._at = 0
        self._seen = False

    @property
    def offset(self) -> int | None:
        """None until the peer has reported what it has."""
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
            raise ValueError(f"{self.path} is longer than {size(self.kind.limit)}")
        theirs = digest(content)
        if theirs == self._theirs or not content:
            return False
        self._theirs, self._sending, self._at = theirs, content, 0
        return True


class Ranked(Protocol):
    """Something that belongs to a level."""

    kind: Mirrored


Item = TypeVar("Item", bound=Ranked)


class Backlog(Generic[Item]):
    """Items in order of their level; within one, each in its turn."""

    def __init__(self) -> None:
        self._levels: dict[Level, deque[Item]] = {level: deque() for level in Level}
        self._waiting: set[int] = set()
        self.held = NOTHING
        """Items of this level and above wait until there is another."""

    def __len__(self) -> int:
        """Items that may go now."""
        return sum(len(waiting) for level, waiting in self._levels.items() if level < self.held)

    def push(self, item: Item) -> None:
        """Enqueue `item`; one that is already queued keeps its position."""
        if id(item) not in self._waiting:
            self._waiting.add(id(item))
            self._levels[item.kind.level].append(item)

    def pop(self) -> Item | None:
        """The next one; None when nothing waits."""
        for level, waiting in self._levels.items():
            if waiting and level < self.held:
                item = waiting.popleft()
                self._waiting.discard(id(item))
                return item
        return None


OLD_INTERVAL = 5.0
"""Seconds between two looks at attempts before the last."""

Source = GrowingFile | WholeFile
Message = tuple[str, bytes, Mapping[str, Any]]
"""Kind, bytes and fields of a frame."""


class Sources:
    """The mirrored files of one node's part of a run."""

    def __init__(self, root: Path, node: str) -> None:
        self._root = root
        self._finder = Finder(root, node)
        self._files: dict[str, dict[str, Source]] = {}
        """Attempt ("" for what belongs to none) → path → file."""
        self._backlog: Backlog[Source] = Backlog()
        self._asked: dict[str, Source] = {}
        self._said: set[str] = set()
        self._to_say: list[str] = []
        self._old_due = 0.0
        self._thorough = False
        self._looked = False
        self.attempt: int | None = None
        """The last one."""

    def __len__(self) -> int:
        """Files that wait for their turn."""
        return len(self._backlog)

    @property
    def behind(self) -> int:
        """Bytes that the other end lacks, as far as was seen."""
        return sum(file.behind for file in self._all() if file.kind.level < self._backlog.held)

    @property
    def all_sent(self) -> bool:
        """Since `look_at_all` was called, all was looked at, and nothing is left to be sent."""
        return (
            self._looked and not self._thorough and not self._backlog and not self._asked and not self.behind
        )

    def hold(self, level: int) -> None:
        """Send nothing of `level` and above until called again; what was held back before goes again."""
        before, self._backlog.held = self._backlog.held, level
        for file in self._all():
            if file.kind.level >= min(before, level):
                file.forget()
                self._asked.pop(file.path, None)
                self._backlog.push(file)

    def _all(self) -> Iterator[Source]:
        return (file for files in self._files.values() for file in files.values())

    def look_at_all(self) -> None:
        """At the next look, look at everything."""
        self._thorough, self._looked = True, False

    def look(self) -> None:
        """Find out which files have grown or changed."""
        now = time.monotonic()
        everywhere = now >= self._old_due or self._thorough
        if everywhere:
            self._old_due = now + OLD_INTERVAL
        for path, kind in self._finder.look(everywhere=everywhere):
            self._add(path, kind)
        for path in self._finder.refused:
            self._say(f"{path} is no plain file and is not mirrored")
        self._finder.refused.clear()
        newest = self._finder.newest_attempts(RECENT)
        self.attempt = newest[0] if newest else None
        groups = list(self._files) if everywhere else ["", *map(str, newest)]
        for group in groups:
            for file in list(self._files.get(group, {}).values()):
                self._look_at(file)
        self._thorough, self._looked = False, True

    def resume(self, path: str, have: Mapping[str, Any]) -> None:
        """Take the peer's report of what it has of `path`. Raises ValueError if it is invalid."""
        file = self._asked.pop(path, None)
        if file is None:
            return
        if have.get("unwanted") is True:
            self._drop(file)
            return
        theirs = Have.from_json(have)
        if self._attempted(file, lambda: file.resume(theirs)):
            self._backlog.push(file)

    def next(self, limit: int) -> Message | None:
        """Return what to send next, with at most `limit` bytes of a file; None if there is nothing."""
        while (file := self._backlog.pop()) is not None:
            if file.offset is None:
                if file.path not in self._asked:
                    self._asked[file.path] = file
                    return "ask", b"", {"path": file.path}
                continue
            message = self._piece(file, limit)
            if message is not None:
                self._backlog.push(file)
                return message
        return None

    def take_messages(self) -> list[str]:
        """Return the messages for people; each once."""
        said, self._to_say = self._to_say, []
        return said

    def _piece(self, file: Source, limit: int) -> Message | None:
        found: list[Message] = []

        def read() -> None:
            piece = file.read(limit)
            if isinstance(piece, Cut):
                found.append(("cut", b"", {"path": file.path, "size": piece.size}))
            elif piece is not None:
                kind = "piece" if isinstance(file, WholeFile) else "put"
                last = {"last": piece.last} if isinstance(file, WholeFile) else {}
                found.append((kind, piece.data, {"path": file.path, "at": piece.at, **last}))

        self._attempted(file, read)
        return found[0] if found else None

    def _look_at(self, file: Source) -> None:
        found = []
        if self._attempted(file, lambda: found.append(file.look())) and (found[0] or self._thorough):
            self._backlog.push(file)

    def _attempted(self, file: Source, act: Any) -> bool:
        """Do something with a file, which its rank may do anything with meanwhile; whether that went well."""
        try:
            act()
        except FileNotFoundError:
            self._drop(file)
            self._finder.forget(file.path)
        except (NotPlainError, ValueError) as error:
            self._drop(file)
            self._say(f"{error}: it is not mirrored")
        except OSError as error:
            self._say(f"{file.path} cannot be read: {error.strerror}")
        else:
            return True
        return False

    def _add(self, path: str, kind: Mirrored) -> None:
        makers = {Way.APPENDED: GrowingFile, Way.ROWS: SegmentFile}
        file: Source = makers.get(kind.way, WholeFile)(self._root, path, kind)
        self._files.setdefault(_group(path), {})[path] = file

    def _drop(self, file: Source) -> None:
        self._files.get(_group(file.path), {}).pop(file.path, None)
        self._asked.pop(file.path, None)

    def _say(self, text: str) -> None:
        if text not in self._said and len(self._said) < 1000:
            self._said.add(text)
            self._to_say.append(text)


def _group(path: str) -> str:
    parts = path.split("/", 2)
    return parts[1] if parts[0] == "attempts" else ""


# A metrics segment as it is mirrored: whole rows, and none before those that it follows.
#
# Threads take their rows' offsets before they write them, so a row may be written after one that lies
# behind it. What is not whole is held back for a while; what is not made whole in that time is what a crash
# left, and goes as it is. A row that is mended after that lies near the end, and `GrowingFile` looks there.

HOLD = 2.0
"""Seconds to wait for an incomplete row: long compared with the time a thread takes to write one."""
_WORD = 8
_USUAL_HEADER = 16 * 1024


class SegmentFile(GrowingFile):
    """One metrics segment."""

    def __init__(self, root: Path, path: str, kind: Mirrored) -> None:
        super().__init__(root, path, kind)
        self._header: SegmentHeader | None = None
        self._plain = False
        self._settled = 0
        self._mark: tuple[int, float] | None = None

    def _ready(self, descriptor: int, at: int, data: bytes) -> int:
        if self._plain or not data:
            return len(data)
        end = at + len(data)
        sound = at + self._sound(descriptor, at, data)
        now = time.monotonic()
        if self._mark is not None and now - self._mark[1] >= HOLD:
            self._settled, self._mark = self._mark[0], None
        allowed = max(sound, min(self._settled, end))
        if allowed < end and self._mark is None:
            self._mark = (os.fstat(descriptor).st_size, now)
        return max(0, allowed - at)

    @property
    def _waits(self) -> bool:
        return self._mark is not None and self.behind > 0

    def _sound(self, descriptor: int, at: int, data: bytes) -> int:
        """How much of `data`, which lies at `at`, is header and rows up to the first that was not written."""
        header = self._read_header(descriptor)
        if header is None:
            return len(data) if self._plain else 0
        row = header.row_bytes
        begin = max(header.length, at + (header.length - at) % row) - at
        if begin > len(data):
            return 0
        count = (len(data) - begin) // row
        words = memoryview(data)[begin : begin + count * row].cast("Q")
        times = words[1 :: row // _WORD].tolist()
        return begin + row * (times.index(0) if 0 in times else count)

    def _read_header(self, descriptor: int) -> SegmentHeader | None:
        if self._header is None:
            try:
                self._header = decode_header(os.pread(descriptor, _USUAL_HEADER, 0))
                if self._header is None:
                    self._header = decode_header(os.pread(descriptor, HEADER_LIMIT, 0))
            except SegmentError:
                self._plain = True  # mirrored all the same: its reader says what is wrong with it
        return self._header
