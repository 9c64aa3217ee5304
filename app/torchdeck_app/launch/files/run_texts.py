"""What the runs of a home were started with."""

from __future__ import annotations

from calendar import timegm
from collections.abc import Mapping
from pathlib import Path
from time import strptime
from typing import Any, NamedTuple

from torchdeck.contract.bounded_file import open_regular
from torchdeck.contract.bounded_json import JsonError, parse_json_object
from torchdeck.contract.layout import RunLayout
from torchdeck.quantities import moment
from torchdeck.runs.folders.frozen import frozen_run_file
from torchdeck.runs.registry import RunRegistry

LIMIT = 200
_LINE = 1 << 18
"""Bytes of a line that are read: the first one holds what was asked for."""


class RunText(NamedTuple):
    """What one run was started with."""

    run_id: str
    text: str


class RunTitle(NamedTuple):
    """What a person calls a run."""

    run_id: str
    name: str
    created: float | None
    """Seconds since the epoch; None where its id does not tell either."""

    def __str__(self) -> str:
        return f"{self.name}, {moment(self.created)}" if self.created is not None else self.name


def run_titles(home: Path, limit: int = LIMIT, wanted: str = "") -> tuple[RunTitle, ...]:
    """The newest runs, the newest first.

    Args:
        home: whose.
        limit: so many of them.
        wanted: a run that is among them in any case: before all others where it is older, or gone.
    """
    registry = RunRegistry(home)
    ids = registry.ids()[-limit:][::-1]
    if wanted and wanted not in ids:
        ids = [wanted, *ids]
    return tuple(_title(RunLayout(registry.folder / run_id)) for run_id in ids)


def _title(layout: RunLayout) -> RunTitle:
    """By the first line that its launch wrote; by its id where that cannot be read."""
    run_id = layout.root.name
    record = _first_record(layout.journal)
    name = record.get("name")
    time = record.get("t")
    return RunTitle(
        run_id,
        name if isinstance(name, str) and name else run_id,
        float(time) if isinstance(time, int | float) else _time_in(run_id),
    )


def _first_record(path: Path) -> Mapping[str, Any]:
    try:
        with open_regular(path) as file:
            record = parse_json_object(file.readline(_LINE), limit=_LINE, file_names=True)
    except (OSError, JsonError):
        return {}
    return record if record.get("event") == "created" else {}


def _time_in(run_id: str) -> float | None:
    """When it was made, as its id begins with that."""
    try:
        return float(timegm(strptime(run_id.partition("-")[0], "%Y%m%dT%H%M%SZ")))
    except ValueError:
        return None


def run_text(home: Path, run_id: str) -> RunText:
    """Its run.toml, with every `--set` of its start put in.

    Raises:
        OSError: it is not there, or cannot be read.
        ValueError: it is not TOML.
    """
    frozen = frozen_run_file(RunLayout(RunRegistry(home).folder / run_id))
    return RunText(run_id, frozen.text.replace("\r\n", "\n"))
