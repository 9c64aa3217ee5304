"""Heartbeat of a rank: one small record, overwritten every second by a thread that needs no cooperation.

`checksum JSON`, padded with spaces to the longest record so far: whoever reads during a write sees a wrong
checksum and reads again. Standard library, Python 3.10.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.contract.bounded_json import parse_json
from torchdeck.contract.processes import MOST_PIDS

INTERVAL = 1.0
"""Seconds between two heartbeats."""
LIMIT = 4096
"""Most bytes of a record."""
TEXT_LIMIT = 256
MOST_GROUPS = 24
"""Process groups in a record."""
NAME_LIMIT = 64
"""Most characters of a group's name; one with a longer name is left out."""
_READ_ATTEMPTS = 5
_WHOLE_LIMIT = 1 << 63


class GroupCounts(NamedTuple):
    """Sequence numbers of a process group's last collectives; 0: none."""

    group: str
    enqueued: int
    completed: int


class RankHeartbeat(NamedTuple):
    """Report of a rank on itself, once per second."""

    pid: int
    monotonic: float
    """Seconds on the node's monotonic clock."""
    enqueued: int = 0
    """Sequence numbers of the last enqueued collective, added up over all process groups."""
    completed: int = 0
    """The same for the last completed one; lags on gloo if the program does not wait."""
    groups: int = 0
    """Process groups that had a collective."""
    activity: str = ""
    """Activity of the main thread, if its stack tells: see `telemetry.doctor.main_thread`."""
    place: str = ""
    """`train.py:84 save_model`: the innermost frame of the user's own code in the main thread."""
    places: int = 0
    """Different stacks of the main thread in the last seconds; 0: they cannot be read."""
    computes: bool = False
    """A library such as torch was at work in some of them."""
    signal: int = 0
    """Signal at which faulthandler writes the stacks; 0: none, the program uses it."""
    timeout: float = 0.0
    """Shortest timeout of the process groups in seconds; 0: not known."""
    by_group: tuple[GroupCounts, ...] = ()
    """The same numbers per group: what a rank that has crashed leaves of its collectives."""


class RankHeartbeatFile:
    """Heartbeat file of a rank, for writing."""

    def __init__(self, path: Path) -> None:
        """Open the file.

        Raises:
            OSError: it cannot be written.
        """
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._longest = 0

    def write(self, beat: RankHeartbeat) -> None:
        """Overwrite the record.

        Raises:
            OSError: it could not be written.
        """
        record = _encode(beat)
        if len(record) > LIMIT:
            record = _encode(beat._replace(by_group=()))
        self._longest = max(self._longest, len(record))
        os.pwrite(self._descriptor, record.ljust(self._longest), 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def _encode(beat: RankHeartbeat) -> bytes:
    fields = {name: value for name, value in beat._asdict().items() if name != "by_group" or value}
    text = json.dumps(fields, separators=(",", ":")).encode()
    return b"%08x %s" % (zlib.crc32(text), text)


def read_rank_heartbeat(path: Path) -> RankHeartbeat | None:
    """Return the record in `path`; None if there is none, or it is damaged."""
    for _ in range(_READ_ATTEMPTS):
        try:
            # O_NONBLOCK: a rank may have put a FIFO there, which must not block
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            found = _decode(os.read(descriptor, LIMIT))
        except OSError:
            return None
        finally:
            os.close(descriptor)
        if found is not None:
            return found
    return None


def _decode(record: bytes) -> RankHeartbeat | None:
    checksum, _, text = record.rstrip().partition(b" ")
    with contextlib.suppress(ValueError):
        if int(checksum, 16) == zlib.crc32(text):
            value = parse_json(text, limit=LIMIT)
            return _checked(value) if isinstance(value, dict) else None
    return None


def _checked(value: dict[str, Any]) -> RankHeartbeat | None:
    """Return the heartbeat; fields of a newer version are left out, and those of a wrong type are refused."""
    fields: dict[str, Any] = {}
    for name, default in {"pid": 0, "monotonic": 0.0, **RankHeartbeat._field_defaults}.items():
        if name == "by_group":
            continue
        found = value.get(name, default)
        if isinstance(default, float) and type(found) is int:
            found = float(found)
        if type(found) is not type(default):
            return None
        if isinstance(found, (int, float)) and not -1 <= found < _WHOLE_LIMIT:
            return None
        fields[name] = found[:TEXT_LIMIT] if isinstance(found, str) else found
    beat = RankHeartbeat(**fields, by_group=_groups(value.get("by_group")))
    return beat if 0 < beat.pid <= MOST_PIDS and 0 <= beat.signal <= 64 else None


def _groups(value: object) -> tuple[GroupCounts, ...]:
    """Return the groups; those that are damaged are left out."""
    found = []
    for item in value[:MOST_GROUPS] if isinstance(value, list) else ():
        if isinstance(item, list) and [type(field) for field in item] == [str, int, int]:
            group, enqueued, completed = item
            if len(group) <= NAME_LIMIT and all(0 <= each < _WHOLE_LIMIT for each in (enqueued, completed)):
                found.append(GroupCounts(group, enqueued, completed))
    return tuple(found)
