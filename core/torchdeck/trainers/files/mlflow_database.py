"""Reader of MLflow's database: SQLite, a row of `metrics` per value."""

from __future__ import annotations

import os
from pathlib import Path

from torchdeck.contract.refusal import Refusal
from torchdeck.trainers.files.growing import FileReader
from torchdeck.trainers.files.sqlite_file import SECONDS, StoredRun, opened
from torchdeck.trainers.reading import Reading

NAME = "mlflow.db"
"""Its usual name, by which it is found while a program runs."""
PIECE = 1000
"""Rows per read."""
MOST_RUNS = 10_000
NAME_LIMIT = 1024
_NEEDED = frozenset(("key", "value", "timestamp", "run_uuid", "step", "is_nan"))
_RUNS = (
    "SELECT run_uuid, COALESCE(name, run_uuid) FROM runs "
    "WHERE run_uuid IN (SELECT run_uuid FROM metrics) ORDER BY start_time LIMIT ?"
)
_ROWS = (
    "SELECT rowid, key, value, timestamp, step, is_nan FROM metrics "
    "WHERE rowid > ? AND timestamp >= ? AND (? = '' OR run_uuid = ?) ORDER BY rowid LIMIT ?"
)


def mlflow_runs(path: Path) -> list[StoredRun]:
    """Return the runs in a database; none if it is another program's.

    Raises:
        Refusal: it is damaged, or takes too long.
    """
    with opened(path) as connection:
        tables = "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name IN ('runs', 'metrics')"
        columns = {name for (name,) in connection.execute("SELECT name FROM pragma_table_info('metrics')")}
        if connection.execute(tables).fetchone() != (2,) or not columns >= _NEEDED:
            return []
        rows = connection.execute(_RUNS, (MOST_RUNS,)).fetchall()
    return [StoredRun(id_, name) for id_, name in rows if isinstance(id_, str) and isinstance(name, str)]


class MlflowDatabase(FileReader):
    """Reader of one run in a database, or of all that is logged from a time on."""

    def __init__(self, path: Path, run_id: str = "", since: float = 0.0) -> None:
        """Create a reader.

        Args:
            path: the database.
            run_id: the run; empty: all.
            since: unix seconds; values before are another run's.
        """
        super().__init__(path)
        self._run_id = run_id
        self._since = int(since * 1000)
        self._last = 0
        self._seen: tuple[tuple[int, int], ...] = ()

    def read(self) -> list[Reading]:
        seen = tuple(_version(path) for path in (self.path, self.path.with_name(f"{self.path.name}-wal")))
        if seen == self._seen and not self.more:
            return []
        self.more = False
        try:
            with opened(self.path, SECONDS if self.limit is None else self.limit) as connection:
                asked = (self._last, self._since, self._run_id, self._run_id, PIECE)
                rows = connection.execute(_ROWS, asked).fetchall()
        except Refusal:
            return []
        self._seen = seen
        self.more = len(rows) == PIECE
        if rows:
            self._last = rows[-1][0]
        return [reading for row in rows if (reading := _reading(*row[1:])) is not None]


def _version(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)  # noqa: PTH116 - once a second for each file: no Path is made
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def _reading(key: object, value: object, timestamp: object, step: object, is_nan: object) -> Reading | None:
    if not isinstance(key, str) or not 0 < len(key) <= NAME_LIMIT:
        return None
    if not isinstance(value, (int, float)) or not isinstance(timestamp, int) or not isinstance(step, int):
        return None
    if not 0 < timestamp < 1e14 or not 0 <= step < 2**62:
        return None
    return Reading({key: float("nan") if is_nan else float(value)}, step, time=timestamp / 1000.0)
