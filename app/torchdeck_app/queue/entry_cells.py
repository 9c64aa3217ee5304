"""Texts and looks of the cells of one entry."""

from __future__ import annotations

import time

from torchdeck.contract.inventory import LOCALHOST
from torchdeck.quantities import moment
from torchdeck.queue.entry import Stage
from torchdeck.runs.run_state import RunState
from torchdeck.use_cases.queue.listing import ListedEntry
from torchdeck_app.widgets.state_badge import LOOKS, Look

WAITING = Look("◷", "waiting", "quiet")
PAUSED = Look("‖", "paused", "warn")
DELETED = Look("○", "deleted", "quiet")
"""Look of an entry whose run was deleted."""
_ACTIVE = {Stage.STARTING: LOOKS[RunState.STARTING], Stage.RUNNING: LOOKS[RunState.RUNNING]}
_ESTIMATE = "Estimated from the lengths of earlier runs with the same name; it decides nothing."


def look_of(listed: ListedEntry) -> Look:
    """Return the look of an entry's state."""
    entry = listed.entry
    if entry.stage is Stage.WAITING:
        return PAUSED if entry.paused else WAITING
    if entry.is_over:
        return LOOKS[RunState(entry.outcome)] if entry.outcome in [*RunState] else DELETED
    return _ACTIVE[entry.stage]


def start_text(listed: ListedEntry, now: float) -> str:
    """Return when it started, or `about 14:35`, an estimate; empty if nothing is known."""
    if listed.entry.begun is not None:
        return _clock(listed.entry.begun, now)
    if listed.wait is None or listed.wait.estimate is None:
        return ""
    estimate = listed.wait.estimate
    return "soon" if estimate < now + 1 else f"about {_clock(estimate, now)}"


def start_tip(listed: ListedEntry) -> str:
    """Return the exact start, or how the estimate was made."""
    if listed.entry.begun is not None:
        return f"Started at {moment(listed.entry.begun)}"
    if listed.wait is None or listed.wait.estimate is None:
        return "No estimate: lengths of earlier runs are not known."
    latest = listed.wait.certain
    more = "" if latest is None else f"\nBy time limits, at the latest at {moment(latest)}."
    return f"{moment(listed.wait.estimate)}. {_ESTIMATE}{more}"


def details(listed: ListedEntry) -> str:
    """Return why it waits, where it runs, or how it ended."""
    entry = listed.entry
    if not entry.has_devices:
        why = listed.why
        after = f"After {', '.join(map(str, entry.after))}" if entry.after else ""
        return f"{why[:1].upper()}{why[1:]}" or ("" if entry.is_over else after)
    return ", ".join(
        f"{'this machine' if node == LOCALHOST else node} ({_devices(gpus)})" for node, gpus in entry.places
    )


def tip(listed: ListedEntry) -> str:
    """Return what an entry is, as lines."""
    entry = listed.entry
    hint = "Enter or a double-click opens its run." if entry.run else ""
    return "\n".join(
        filter(
            None,
            (
                f"{entry.name} ({entry.id})",
                entry.file.path if entry.file.is_file else "",
                " ".join(entry.file.overrides),
                f"Tags: {', '.join(entry.tags)}" if entry.tags else "",
                f"After {', '.join(map(str, entry.after))}" if entry.after else "",
                f"Queued at {moment(entry.added)}",
                hint,
            ),
        )
    )


def _devices(gpus: tuple[int, ...]) -> str:
    return f"GPU {', '.join(map(str, gpus))}" if gpus else "CPU"


def _clock(at: float, now: float) -> str:
    """Return the local time of day, with the date on another day."""
    there, here = time.localtime(at), time.localtime(now)
    return time.strftime("%H:%M" if there[:3] == here[:3] else "%Y-%m-%d %H:%M", there)
