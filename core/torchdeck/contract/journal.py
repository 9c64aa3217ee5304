"""Append-only journals: one JSON object per line, one writer per file, torn tails tolerated.

The last field of a line, `crc`, is the CRC-32 of all before it: a changed byte never changes an event. Lines
of older versions have none.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import sys
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from torchdeck.contract.bounded_file import open_regular
from torchdeck.contract.bounded_json import JsonError, parse_json_object
from torchdeck.contract.layout import FORMAT_VERSION, NodeLayout
from torchdeck.contract.refusal import Refusal

THIS_MACHINE = "localhost"
"""Name that a run gives to the node with its directory."""
LINE_LIMIT = 1024 * 1024
"""Most bytes of an event; a longer line is damage."""
READ_LIMIT = 4 * 1024 * 1024
"""Most bytes of a journal that are read completely at once: a quarter of a second's work."""
MILESTONES = (
    "created",
    "controller_started",
    "agent_started",
    "resumed",
    "request",
    "launching",
    "attempt_started",
    "attempt_ended",
    "finished",
    "lost",
    "fenced",
)
"""Events that a run's state depends on, however long ago they happened."""
MILESTONES_LIMIT = 10_000
LATEST = 2.5e11
"""Latest unix seconds that dates can show: year 9892."""
_SHORTEST = len(b'{"v":1,"t":1,"m":1,"event":""}')
_CRC_FIELD = b', "crc": "%08x"}'
_CRC_LENGTH = len(_CRC_FIELD % 0)
_MILESTONE = re.compile(rb'"event": ?"(?:%s)"' % "|".join(MILESTONES).encode("ascii"))


class NewerFormatError(Refusal):
    """A file was written by a newer Torchdeck than this one."""

    is_usage = True

    def __init__(self, path: Path, version: int) -> None:
        super().__init__(
            f"{path} was written by a newer Torchdeck (format {version}, this one reads up to "
            f"{FORMAT_VERSION})",
            fix="update Torchdeck to open this run",
        )


@dataclass(frozen=True)
class Event:
    """One journal line.

    Attributes:
        name: the kind of event.
        time: seconds since the epoch on the writer's clock.
        monotonic: seconds on the writer's monotonic clock, for durations within one boot.
        fields: everything else.
    """

    name: str
    time: float
    monotonic: float
    fields: Mapping[str, Any] = field(default_factory=dict)


Writer = TypeVar("Writer", bound="JournalWriter")


class JournalWriter:
    """Writer that appends events, each in one write; a torn line left by a crash is closed first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        size = os.fstat(self._descriptor).st_size
        self._torn = size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"

    def append(self, event: str, /, *, durable: bool = True, **fields: Any) -> None:
        """Write one event; on disk on return, if `durable`.

        Raises:
            OSError: the disk is full or gone; the partial line is then closed by the next one.
        """
        self._write(_line(event, fields))
        if durable:
            os.fdatasync(self._descriptor)

    def _write(self, line: bytes) -> None:
        whole = b"\n" + line if self._torn else line
        written = os.write(self._descriptor, whole)
        if written != len(whole):
            self._torn = True
            raise OSError(
                errno.ENOSPC,
                f"only {written} of {len(whole)} bytes of an event could be written",
                str(self._path),
            )
        self._torn = False

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self: Writer) -> Writer:  # noqa: PYI019 - typing.Self is not in Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class PatientJournalWriter(JournalWriter):
    """Writer that keeps events in memory while they cannot be written: a full disk must not end a run's
    supervisor.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._waiting: list[bytes] = []

    def append(self, event: str, /, *, durable: bool = True, **fields: Any) -> None:
        """Write one event, or keep it, with the time it happened, for a later call; never raises OSError."""
        self._waiting.append(_line(event, fields))
        self.catch_up(durable=durable)

    def catch_up(self, *, durable: bool = True) -> bool:
        """Write pending events; False while some are still pending."""
        if not self._waiting:
            return True
        try:
            while self._waiting:
                self._write(self._waiting[0])
                del self._waiting[0]
            if durable:
                os.fdatasync(self._descriptor)
        except OSError as error:
            with contextlib.suppress(OSError):  # the log may be on the same disk
                print(f"{self._path}: {len(self._waiting)} events wait for room: {error}", file=sys.stderr)
        return not self._waiting


def _line(event: str, fields: Mapping[str, Any]) -> bytes:
    record = {"v": FORMAT_VERSION, "t": time.time(), "m": time.monotonic(), "event": event, **fields}
    # a file's name may hold bytes that are not UTF-8
    text = json.dumps(record, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace")
    return with_crc(text) + b"\n"


def with_crc(text: bytes) -> bytes:
    """Return a JSON object with the CRC-32 of its text as its last field, `crc`."""
    body = text.removesuffix(b"}")
    return body + _CRC_FIELD % zlib.crc32(body)


def crc_matches(line: bytes, crc: object) -> bool:
    """Return whether `crc`, the last field of `line`, is that of its text."""
    return crc == f"{zlib.crc32(line[:-_CRC_LENGTH]):08x}"


class JournalReader:
    """Reader that follows a journal: each call returns the events appended since the last one.

    Of more than `limit` new bytes, the middle is skimmed: only events of `MILESTONES` are read there.

    Attributes:
        torn: lines that are no events (a crash or a full disk cut them, or they were changed later).
        skimmed: bytes that were skipped.
    """

    def __init__(self, path: Path, *, limit: int | None = READ_LIMIT) -> None:
        """Create the reader; nothing is read before the first call.

        Args:
            path: the journal; it need not exist yet.
            limit: most bytes that one call reads completely; None: all there are.
        """
        self.path = path
        self.torn = 0
        self.skimmed = 0
        self._limit = limit
        self._offset = 0
        self._in_long_line = False

    def read_new(self) -> Iterator[Event]:
        """Yield the events in complete lines that this reader has not returned yet.

        Raises:
            NewerFormatError: the journal is from a newer Torchdeck.
            OSError: it exists but cannot be read.
        """
        try:
            file = open_regular(self.path)
        except FileNotFoundError:
            return
        with file:
            for line in self._lines(file.fileno(), os.fstat(file.fileno()).st_size):
                event = self._parse(line)
                if event is not None:
                    yield event

    def _lines(self, descriptor: int, end: int) -> Iterator[bytes]:
        """Yield the lines appended up to `end`."""
        thorough, skim_end, milestones = self._plan(end)
        while chunk := os.pread(descriptor, LINE_LIMIT, self._offset):
            skims = thorough <= self._offset < skim_end
            whole = chunk.rfind(b"\n") + 1
            if not whole and len(chunk) < LINE_LIMIT:
                return  # a line that is being written
            begin = chunk.find(b"\n") + 1 if self._in_long_line else 0
            self._offset += whole or len(chunk)
            self.torn += not whole and not self._in_long_line
            self._in_long_line = not whole
            if skims:
                for line in _milestones_in(chunk[begin:whole], milestones):
                    milestones -= 1
                    self.skimmed -= len(line)
                    yield line
                self.skimmed += whole - begin
            else:
                yield from filter(None, chunk[begin:whole].split(b"\n"))

    def _plan(self, end: int) -> tuple[int, int, int]:
        """Return the range in which only milestones are read, and how many of them."""
        if self._limit is None or end - self._offset <= self._limit:
            return end, end, 0
        return self._offset + self._limit // 8, end - self._limit * 7 // 8, MILESTONES_LIMIT

    def _parse(self, line: bytes) -> Event | None:
        if len(line) < _SHORTEST:
            self.torn += 1
            return None
        try:
            record = parse_json_object(line, limit=LINE_LIMIT, file_names=True)
            crc = record.pop("crc", None)
            if crc is not None and not crc_matches(line, crc):
                self.torn += 1
                return None
            version = record.pop("v")
            if isinstance(version, int) and version > FORMAT_VERSION:
                raise NewerFormatError(self.path, version)
            name, when, monotonic = record.pop("event"), record.pop("t"), record.pop("m")
        except (JsonError, KeyError):
            self.torn += 1
            return None
        numbers = all(isinstance(number, (int, float)) for number in (version, when, monotonic))
        if not numbers or not isinstance(name, str) or not 0 <= when < LATEST or not abs(monotonic) < LATEST:
            self.torn += 1
            return None
        return Event(name, float(when), float(monotonic), record)


def _milestones_in(content: bytes, most: int) -> Iterator[bytes]:
    """Yield the lines of `content`, which ends with one, that may be events of `MILESTONES`."""
    at = 0
    while most > 0 and (found := _MILESTONE.search(content, at)) is not None:
        at = content.find(b"\n", found.end()) + 1
        yield content[content.rfind(b"\n", 0, found.start()) + 1 : at - 1]
        most -= 1


class NodeJournalReader(JournalReader):
    """Reader of the journal that a node sent: no error in it keeps others from being read.

    Attributes:
        problem: why it cannot be read, as a sentence; else empty.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.problem = ""
        self._is_newer = False

    def read_new(self) -> Iterator[Event]:
        """Yield as `JournalReader.read_new`, but raise nothing."""
        if self._is_newer:
            return
        self.problem = ""
        try:
            yield from super().read_new()
        except (NewerFormatError, OSError) as error:
            self.problem = str(error)
            self._is_newer = isinstance(error, NewerFormatError)


def reader_of_node(node: NodeLayout) -> JournalReader:
    """Return a reader of the node's journal, which was sent by that node unless it is this machine."""
    if node.root.name == THIS_MACHINE:
        return JournalReader(node.journal)
    return NodeJournalReader(node.journal)


def read_journal(path: Path) -> list[Event]:
    """Return all events of a journal of this machine; an absent file has none."""
    return list(JournalReader(path, limit=None).read_new())
