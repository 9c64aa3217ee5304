"""The journal's `created` line, rebuilt from the run's plan and id if it is damaged."""

from __future__ import annotations

import calendar
import time
from collections.abc import Mapping

from torchdeck.contract.atomic import read_json
from torchdeck.contract.journal import Event
from torchdeck.contract.layout import RUN_ID, RunLayout

_COPIED = ("name", "kind", "target", "strategy", "world_size", "fingerprint")


def rebuilt_created(layout: RunLayout) -> Event | None:
    """Return the event without what only the launcher knew, such as the run file's path; None without a
    plan.
    """
    try:
        plan = read_json(layout.plan)
    except OSError:
        return None
    if not isinstance(plan, Mapping):
        return None
    fields = {name: plan[name] for name in _COPIED if name in plan}
    return Event("created", _time_of(layout.root.name), 0.0, {**fields, "rebuilt": True})


def _time_of(run_id: str) -> float:
    """Return the time at the start of a run's id, in unix seconds; 0 if it is not an id."""
    if not RUN_ID.fullmatch(run_id):
        return 0.0
    try:
        return float(calendar.timegm(time.strptime(run_id.partition("-")[0], "%Y%m%dT%H%M%SZ")))
    except ValueError:
        return 0.0
