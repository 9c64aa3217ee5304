"""Run files with which the runs of a home were started."""

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
"""Maximum bytes read of a line: the first one has the requested data."""


class RunText(NamedTuple):
    """Run file of one run."""

    run_id: str
    text: str


class RunTitle(NamedTuple):
    """Display name of a run."""

    run_id: str
    name: str
    created: float | None
    """Seconds since the epoch; None if its id does not contain it either."""

    def __str__(self) -> str:
        return f"{self.name}, {moment(self.created)}" if self.created is not None else self.name


def run_titles(home: Path, limit: int = LIMIT, wanted: str = "") -> tuple[RunTitle, ...]:
    """Return the newest runs, newest first.

    Args:
        home: TORCHDECK_HOME.
        limit: maximum number.
        wanted: a run to include in any case: before all others if it is older, or gone.
    """
    registry = RunRegistry(home)
    ids = registry.ids()[-limit:][::-1]
    if wanted and wanted not in ids:
        ids = [wanted, *ids]
    return tuple(_title(RunLayout(registry.folder / run_id)) for run_id in ids)


def _title(layout: RunLayout) -> RunTitle:
    """Return the title from the first line that its launch wrote; from its id if that cannot be read."""
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
    """Return the creation time at the beginning of its id."""
    try:
        return float(timegm(strptime(run_id.partition("-")[0], "%Y%m%dT%H%M%SZ")))
    except ValueError:
        return None


def run_text(home: Path, run_id: str) -> RunText:
    """Return its run.toml, with all `--set` of its start applied.

    Raises:
        OSError: it does not exist, or cannot be read.
        ValueError: it is not TOML.
    """
    frozen = frozen_run_file(RunLayout(RunRegistry(home).folder / run_id))
    return RunText(run_id, frozen.text.replace("\r\n", "\n"))
