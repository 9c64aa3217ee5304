"""Reader of trackio's project database: SQLite, a row of `metrics` per call of `trackio.log`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from torchdeck.contract.bounded_json import JsonError, parse_json
from torchdeck.contract.refusal import Refusal
from torchdeck.trainers.files.growing import FileReader
from torchdeck.trainers.files.json_lines import number, numbers, whole
from torchdeck.trainers.files.sqlite_file import StoredRun, opened
from torchdeck.trainers.reading import Reading

ROW_LIMIT = 64 * 1024
"""Longest row that is parsed; pictures and tables are longer, and left out."""
PIECE = 1000
"""Rows per read."""
MOST_RUNS = 10_000
_RUNS = f"SELECT run_id, MAX(run_name) FROM metrics GROUP BY run_id ORDER BY MIN(id) LIMIT {MOST_RUNS}"  # noqa: S608 - a constant
_ROWS = (
    "SELECT id, timestamp, step, metrics FROM metrics "
    "WHERE run_id = ? AND id > ? AND length(metrics) <= ? ORDER BY id LIMIT ?"
)


def trackio_runs(path: Path) -> list[StoredRun]:
    """Return the runs in a database; none if it is another program's.

    Raises:
        Refusal: it is damaged, or takes too long.
    """
    with opened(path) as connection:
        made = "SELECT name FROM pragma_table_info('metrics')"
        is_table = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'metrics'"
        columns = {name for (name,) in connection.execute(made)}
        if not connection.execute(is_table).fetchone() or not columns >= {
            "run_id", "run_name", "timestamp", "step", "metrics"
        }:  # fmt: skip
            return []
        rows = connection.execute(_RUNS).fetchall()
    return [StoredRun(id_, name) for id_, name in rows if isinstance(id_, str) and isinstance(name, str)]


class TrackioFile(FileReader):
    """Reader of one run in a project's database."""

    def __init__(self, path: Path, run_id: str) -> None:
        super().__init__(path)
        self._run_id = run_id
        self._last = -1

    def read(self) -> list[Reading]:
        self.more = False
        try:
            with opened(self.path) as connection:
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
