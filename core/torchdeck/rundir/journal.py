"""Append-only journals: one JSON object a line, one writer a file, torn tails tolerated."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from torchdeck.rundir.layout import FORMAT_VERSION


class NewerFormatError(Exception):
    """A file was written by a newer Torchdeck than this one."""

    def __init__(self, path: Path, version: int) -> None:
        super().__init__(
            f"{path} was written by a newer Torchdeck (format {version}, this one reads up to "
            f"{FORMAT_VERSION}): update Torchdeck to open this run"
        )


@dataclass(frozen=True)
class Event:
    """One journal line.

    Attributes:
        name: what happened.
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
    """Appends events, each in one write; a torn line left by a crash is closed first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        size = os.fstat(self._descriptor).st_size
        self._torn = size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"

    def append(self, event: str, /, *, durable: bool = True, **fields: Any) -> None:
        """Write one event; on disk when this returns, if `durable`.

        Raises:
            OSError: the disk is full or gone; what was written of the line is then closed by the next one.
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
    """Keeps events in memory while they cannot be written: a full disk must not end who supervises a run."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._waiting: list[bytes] = []

    def append(self, event: str, /, *, durable: bool = True, **fields: Any) -> None:
        """Write one event, or keep it, with the time it happened, for a later call; never raises OSError."""
        self._waiting.append(_line(event, fields))
        self.catch_up(durable=durable)

    def catch_up(self, *, durable: bool = True) -> bool:
        """Write what waits; False while something still does."""
        if not self._waiting:
            return True
        try:
            while self._waiting:
                self._write(self._waiting[0])
                del self._waiting[0]
            if durable:
                os.fdatasync(self._descriptor)
        except OSError as error:
            with contextlib.suppress(OSError):  # the log may lie on the same disk
                print(f"{self._path}: {len(self._waiting)} events wait for room: {error}", file=sys.stderr)
        return not self._waiting


def _line(event: str, fields: Mapping[str, Any]) -> bytes:
    record = {"v": FORMAT_VERSION, "t": time.time(), "m": time.monotonic(), "event": event, **fields}
    # a file's name may hold bytes that are no UTF-8
    return json.dumps(record, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace") + b"\n"


class JournalReader:
    """Follows a journal: each call gives the events appended since the last one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self.torn = 0
        """Lines that could not be read as an event (a crash or a full disk cut them)."""

    def read_new(self) -> list[Event]:
        """Events in whole lines that this reader has not given yet.

        Raises:
            NewerFormatError: the journal is from a newer Torchdeck.
        """
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                content = file.read()
        except FileNotFoundError:
            return []
        whole = content.rfind(b"\n") + 1
        self._offset += whole
        events = (self._parse(line) for line in content[:whole].splitlines() if line)
        return [event for event in events if event is not None]

    def _parse(self, line: bytes) -> Event | None:
        try:
            record = json.loads(line)
            version = int(record.pop("v"))
            if version > FORMAT_VERSION:
                raise NewerFormatError(self._path, version)
            return Event(str(record.pop("event")), float(record.pop("t")), float(record.pop("m")), record)
        except (ValueError, TypeError, KeyError, AttributeError):
            self.torn += 1
            return None


def read_journal(path: Path) -> list[Event]:
    """All events of a journal; an absent file has none."""
    return JournalReader(path).read_new()
