"""A trackio database as the real package writes it: run by the trainers' Python."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path

BEGAN = datetime(2025, 5, 1, 10, tzinfo=UTC)


def main(folder: Path) -> None:
    os.environ["TRACKIO_DIR"] = str(folder)
    storage = import_module("trackio.sqlite_storage").SQLiteStorage

    for name, rows in (("happy", 20), ("sad", 5)):
        storage.bulk_log(
            "project",
            name,
            [{"loss": 1 / (step + 1), "note": "text"} for step in range(rows)],
            steps=list(range(rows)),
            timestamps=[(BEGAN + timedelta(minutes=step)).isoformat() for step in range(rows)],
            run_id=f"id-{name}",
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
