"""A database with the tables that MLflow 3 makes, as far as runs and metrics go."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from support.written.written_metrics import loss_at

_TABLES = """
CREATE TABLE runs (
    run_uuid VARCHAR(32) NOT NULL PRIMARY KEY, name VARCHAR(250), status VARCHAR(9), start_time BIGINT,
    end_time BIGINT, lifecycle_stage VARCHAR(20), artifact_uri VARCHAR(200), experiment_id INTEGER
);
CREATE TABLE metrics (
    key VARCHAR(250) NOT NULL, value FLOAT NOT NULL, timestamp BIGINT NOT NULL, run_uuid VARCHAR(32) NOT NULL,
    step BIGINT DEFAULT '0' NOT NULL, is_nan BOOLEAN DEFAULT '0' NOT NULL,
    CONSTRAINT metric_pk PRIMARY KEY (key, timestamp, step, run_uuid, value, is_nan),
    FOREIGN KEY(run_uuid) REFERENCES runs (run_uuid)
);
"""


def write_mlflow(path: Path, runs: Mapping[str, int], began: float) -> None:
    """Write runs: name → number of steps, one a second."""
    with closing(sqlite3.connect(path)) as connection:
        if not path.stat().st_size:
            connection.executescript(_TABLES)
        for name, steps in runs.items():
            at, run_id = int(began * 1000), f"id-{name}"
            fields = (run_id, name, "FINISHED", at)
            into_runs = "INSERT INTO runs(run_uuid, name, status, start_time) VALUES(?, ?, ?, ?)"
            connection.execute(into_runs, fields)
            rows = [("train/loss", loss_at(step), at + 1000 * step, run_id, step, 0) for step in range(steps)]
            connection.executemany("INSERT INTO metrics VALUES(?, ?, ?, ?, ?, ?)", rows)
        connection.commit()
