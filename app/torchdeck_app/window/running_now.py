"""Active runs in one line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from torchdeck.quantities import metric
from torchdeck.runs.run_state import RunState
from torchdeck.runs.training_progress import time_left
from torchdeck_app.runs.abilities import is_unfollowed
from torchdeck_app.widgets.state_badge import Look, look_of_run

if TYPE_CHECKING:  # a heavy import, kept out of the first paint
    from torchdeck.runs.run_list import RunEntry

_DEVICES = 4
"""Maximum number of devices in the line; the tooltip has all."""


class RunningNow(NamedTuple):
    """Content of the status bar."""

    look: Look | None
    """Look of the first run; None if nothing runs."""
    text: str
    more: str
    """Every active run, one per line."""
    run_id: str


def running_now(entries: Sequence[RunEntry]) -> RunningNow:
    """Return the training run, the newest of several, and the number of other active ones."""
    live = sorted((entry for entry in entries if entry.is_live), key=_rank)
    if not live:
        return RunningNow(None, "Nothing is running", "", "")
    first = live[0]
    text = "  ·  ".join(_parts(first, _DEVICES))
    if len(live) > 1:
        text += f"  ·  and {len(live) - 1} more"
    more = "\n".join("  ·  ".join(_parts(entry, None)) for entry in live)
    return RunningNow(None if first.view is None else look_of_run(first.view), text, more, first.id)


def _rank(entry: RunEntry) -> int:
    """Return the sort key: training runs first, then waiting ones, and runs of unknown state last."""
    return 2 if is_unfollowed(entry.view) else int(_is_waiting(entry))


def _is_waiting(entry: RunEntry) -> bool:
    return entry.state in (RunState.PENDING, RunState.QUEUED)


def _parts(entry: RunEntry, devices: int | None) -> list[str]:
    view, progress = entry.view, entry.progress
    if view is None:
        return [entry.name]
    parts = [entry.name]
    trains = view.state is RunState.RUNNING and not is_unfollowed(view)
    if not trains or progress is None:
        parts.append(look_of_run(view).word)
    if progress is not None and progress.step is not None:
        total = "" if progress.total is None else f" / {progress.total:,}"
        parts.append(f"step {progress.step:,}{total}")
        if progress.loss is not None:
            loss = progress.loss
            parts.append(f"loss {metric(loss)}")
        if progress.eta is not None and math.isfinite(progress.eta) and trains:
            parts.append(f"{time_left(progress.eta)} left")
    elif progress is not None and progress.phase:
        parts.append(progress.phase)
    if not _is_waiting(entry):
        parts.append(_where(entry, devices))
    return parts


def _where(entry: RunEntry, limit: int | None) -> str:
    """Return its devices; a run that has leased none is on the CPU."""
    devices = () if entry.view is None else entry.view.devices
    if not devices:
        return "CPU"
    if limit is None or len(devices) <= limit:
        return ", ".join(map(_short, devices))
    shown = ", ".join(map(_short, devices[: limit - 1]))
    return f"{shown} and {len(devices) - limit + 1} more devices"


def _short(device: str) -> str:
    """Return the first part of a GPU's UUID, as in `nvidia-smi -L`."""
    return "-".join(device.split("-")[:2]) if device.startswith(("GPU-", "MIG-")) else device
