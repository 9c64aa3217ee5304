"""SQLite databases of other programs: opened read-only. A hostile one costs at most `SECONDS`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic
from typing import NamedTuple
from urllib.parse import quote

from torchdeck.contract.bounded_file import UnreadableFileError, open_regular
from torchdeck.contract.refusal import Refusal

SECONDS = 60.0
"""Longest that one query may take."""
_LOCKED = 5.0
"""Longest wait for a writer."""
_MAGIC = b"SQLite format 3\0"
_PROGRESS = 10_000
"""Instructions of SQLite between two looks at the clock."""


class StoredRun(NamedTuple):
    """One run of several in a database."""

    id: str
    name: str


def is_database(path: Path) -> bool:
    """Return whether the file is an SQLite database."""
    try:
        with open_regular(path) as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except (OSError, UnreadableFileError):
        return False


@contextmanager
def opened(path: Path, seconds: float = SECONDS) -> Iterator[sqlite3.Connection]:
    """Open a database to read it.

    Args:
        path: the database.
        seconds: longest that one query may take.

    Raises:
        Refusal: it is damaged, or takes too long.
    """
    if not is_database(path):  # SQLite would wait for a FIFO
        raise Refusal(f"{path} cannot be read", "it is no SQLite database")
    # without a write-ahead log nothing is written next to it, not even a shared-memory file
    how = "mode=ro" if _has_log(path) else "mode=ro&immutable=1"
    until = monotonic() + seconds
    wait = min(_LOCKED, seconds)
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?{how}", uri=True, timeout=wait)) as connection:
            connection.set_progress_handler(lambda: monotonic() > until, _PROGRESS)
            connection.execute("PRAGMA trusted_schema = OFF")
            yield connection
    except (sqlite3.Error, UnicodeError, OSError) as error:
        raise Refusal(f"{path} cannot be read", error) from error


def _has_log(path: Path) -> bool:
    """Return whether there is a write-ahead log; its writer may delete it at any moment."""
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size > 0
    except OSError:
        return False
