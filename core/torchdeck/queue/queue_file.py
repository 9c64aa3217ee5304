"""The queue's file: one line with its limits, and one line per entry. Each has a checksum.

The file is replaced as a whole, under a lock, so that front ends and a server can change it. A line that is
damaged is left out and reported; the next change keeps a copy of the damaged file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from torchdeck.contract.atomic import copy_aside, write_bytes
from torchdeck.contract.bounded_file import UnreadableFileError, read_bounded
from torchdeck.contract.bounded_json import JsonError, parse_json_object
from torchdeck.contract.journal import crc_matches, with_crc
from torchdeck.contract.layout import Home
from torchdeck.contract.lock_file import changing
from torchdeck.queue.entry import Entry
from torchdeck.queue.state import NewerQueueError, Queue, QueueError, QueueLimits

VERSION = 1
LARGEST = 1 << 30
"""Most bytes of the file."""
LINE_LIMIT = 16 << 20
"""Most bytes of a line: a run file has up to 2²⁰ characters."""
MOST_ENTRIES = 10**9
"""Largest number of an entry."""
_ID = re.compile(r"q[0-9]{1,9}")

_ENTRY = TypeAdapter(Entry)
_LIMITS = TypeAdapter(QueueLimits)


class _Header(NamedTuple):
    limits: QueueLimits
    next_number: int


def read_queue(home: Path) -> Queue:
    """Return the queue of a home; empty if there is no file.

    Raises:
        NewerQueueError: a newer Torchdeck wrote it.
        QueueError: it cannot be read.
    """
    path = Home(home).queue
    try:
        return parse_queue(read_bounded(path, LARGEST), path)
    except FileNotFoundError:
        return Queue()
    except (OSError, UnreadableFileError) as error:
        raise QueueError(f"{path} cannot be read", error) from error


def parse_queue(content: bytes, path: Path) -> Queue:
    """Parse the file; damaged lines are in `damage` of the result.

    Args:
        content: of the file.
        path: its name in sentences.

    Raises:
        NewerQueueError: a newer Torchdeck wrote it.
    """
    header: _Header | None = None
    entries: dict[str, Entry] = {}
    damage: list[str] = []
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            record = _record(line)
            if number == 1:
                header = _header(record, path)
            else:
                entry = _ENTRY.validate_python(record)
                entries[_with_number(entry).id] = entry
        except ValueError:
            lost = "its limits are" if number == 1 else "an entry is"
            damage.append(f"line {number} of {path} is damaged: {lost} lost")
    limits, following = header or _Header(QueueLimits(), 1)
    number = max([following, *(number + 1 for number in _used(entries.values()))])
    return Queue(tuple(entries.values()), limits, number, tuple(damage))


def queue_bytes(queue: Queue) -> bytes:
    """Return the content of the file."""
    header = {
        "queue": VERSION,
        "next": queue.next_number,
        "limits": _LIMITS.dump_python(queue.limits, mode="json"),
    }
    return b"".join(map(_line, _records(header, queue)))


def change_queue(home: Path, change: Callable[[Queue], Queue]) -> Queue:
    """Change the queue, as the only process that does; return it.

    Args:
        home: TORCHDECK_HOME, which exists.
        change: from the queue as it is to the new one; may raise.

    Raises:
        QueueError: it cannot be read or written, or another process has been changing it for too long.
    """
    path = Home(home).queue
    try:
        with changing(path):
            before = read_queue(home)
            after = change(before)
            if after != before:
                if before.damage:
                    copy_aside(path)
                after = after.pruned()
                write_bytes(path, queue_bytes(after), private=True)
            return after
    except TimeoutError as error:
        raise QueueError(str(error), fix="try again") from None
    except OSError as error:
        raise QueueError(f"{path} cannot be written", error.strerror or error) from error


def _records(header: dict[str, Any], queue: Queue) -> Iterator[dict[str, Any]]:
    yield header
    for entry in queue.entries:
        yield _ENTRY.dump_python(entry, mode="json")


def _line(record: dict[str, Any]) -> bytes:
    # file names may hold bytes that are not UTF-8
    text = json.dumps(record, sort_keys=True, ensure_ascii=False).encode("utf-8", "backslashreplace")
    return with_crc(text) + b"\n"


def _record(line: bytes) -> dict[str, Any]:
    """Return the object in a line. Raises JsonError."""
    record = parse_json_object(line, limit=LINE_LIMIT, file_names=True)
    if not crc_matches(line, record.pop("crc", None)):
        raise JsonError("its checksum does not match")
    return record


def _header(record: dict[str, Any], path: Path) -> _Header:
    """Return the content of the first line. Raises NewerQueueError, JsonError, ValidationError."""
    version, number = record.get("queue"), record.get("next")
    if not isinstance(version, int) or not isinstance(number, int) or not 0 < number <= MOST_ENTRIES:
        raise JsonError("it is not the first line of a queue")
    if version > VERSION:
        raise NewerQueueError(f"{path} was written by a newer Torchdeck", fix="update Torchdeck")
    return _Header(_LIMITS.validate_python(record.get("limits")), number)


def _used(entries: Iterable[Entry]) -> Iterator[int]:
    """Yield the numbers of entries, and of those that they wait for, which may be lost."""
    for entry in entries:
        yield entry.number
        yield from (int(after.run[1:]) for after in entry.after if _ID.fullmatch(after.run))


def _with_number(entry: Entry) -> Entry:
    """Return an entry with a valid id. Raises JsonError if it has none."""
    if _ID.fullmatch(entry.id) is None:
        raise JsonError(f"{entry.id} is not the id of an entry")
    return entry
