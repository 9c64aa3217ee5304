"""Reader of trackio's project database: SQLite, a row of `metrics` per call of `trackio.log`.

It is opened read-only. A hostile database costs at most `SECONDS`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import NamedTuple
from urllib.parse import quote

from torchdeck.contract.bounded_file import UnreadableFileError, open_regular
from torchdeck.contract.bounded_json import JsonError, parse_json
from torchdeck.contract.refusal import Refusal
from torchdeck.trainers.files.growing import FileReader
from torchdeck.trainers.files.json_lines import number, numbers, whole
from torchdeck.trainers.reading import Reading

ENDING = ".db"
ROW_LIMIT = 64 * 1024
"""Longest row that is parsed; pictures and tables are longer, and left out."""
PIECE = 1000
"""Rows per read."""
MOST_RUNS = 10_000
SECONDS = 60.0
"""Longest that one query may take."""
_MAGIC = b"SQLite format 3\0"
_PROGRESS = 10_000
"""Instructions of SQLite between two looks at the clock."""
_RUNS = f"SELECT run_id, MAX(run_name) FROM metrics GROUP BY run_id ORDER BY MIN(id) LIMIT {MOST_RUNS}"  # noqa: S608 - a constant
_ROWS = (
    "SELECT id, timestamp, step, metrics FROM metrics "
    "WHERE run_id = ? AND id > ? AND length(metrics) <= ? ORDER BY id LIMIT ?"
)


class TrackioRun(NamedTuple):
    """One run in a project's database."""

    id: str
    name: str


def is_database(path: Path) -> bool:
    """Return whether the file is an SQLite database."""
    try:
        with open_regular(path) as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except (OSError, UnreadableFileError):
        return False


def trackio_runs(path: Path) -> list[TrackioRun]:
    """Return the runs in a database; none if it is another program's.

    Raises:
        Refusal: it is damaged, or takes too long.
    """
    with _opened(path) as connection:
        made = "SELECT name FROM pragma_table_info('metrics')"
        is_table = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'metrics'"
        columns = {name for (name,) in connection.execute(made)}
        if not connection.execute(is_table).fetchone() or not columns >= {
            "run_id", "run_name", "timestamp", "step", "metrics"
        }:  # fmt: skip
            return []
        rows = connection.execute(_RUNS).fetchall()
    return [TrackioRun(id_, name) for id_, name in rows if isinstance(id_, str) and isinstance(name, str)]


class TrackioFile(FileReader):
    """Reader of one run in a project's database."""

    def __init__(self, path: Path, run_id: str) -> None:
        super().__init__(path)
        self._run_id = run_id
        self._last = -1

    def read(self) -> list[Reading]:
        self.more = False
        try:
            with _opened(self.path) as connection:
                rows = connection.execute(_ROWS, (self._run_id, self._last, ROW_LIMIT, PIECE)).fetchall()
        except Refusal:
            return []
        self.more = len(rows) == PIECE
        found = []
        for id_, timestamp, step, text in rows:
            self._last = id_
            reading = _reading(timestamp, step, text)
            if reading is not None:
                found.append(reading)
        return found


def _reading(timestamp: object, step: object, text: object) -> Reading | None:
    try:
        content = text.encode() if isinstance(text, str) else text
        record = (
            parse_json(content, limit=ROW_LIMIT, python_numbers=True) if isinstance(content, bytes) else 0
        )
    except (JsonError, UnicodeError):
        return None
    values = dict(numbers(record)) if isinstance(record, dict) else {}
    if not values:
        return None
    epoch = number(values.get("epoch", values.get("train/epoch")))
    return Reading(values, whole(step), epoch=epoch, time=_time(timestamp))


def _time(timestamp: object) -> float | None:
    try:
        return datetime.fromisoformat(timestamp).timestamp() if isinstance(timestamp, str) else None
    except (ValueError, OverflowError, OSError):
        return None


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    # without a write-ahead log nothing is written next to it, not even a shared-memory file
    wal = path.with_name(f"{path.name}-wal")
    how = "mode=ro" if wal.exists() and wal.stat().st_size else "mode=ro&immutable=1"
    until = monotonic() + SECONDS
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?{how}", uri=True, timeout=5)) as connection:
            connection.set_progress_handler(lambda: monotonic() > until, _PROGRESS)
            connection.execute("PRAGMA trusted_schema = OFF")
            yield connection
    except (sqlite3.Error, UnicodeError, OSError) as error:
        raise Refusal(f"{path} cannot be read", error) from error
