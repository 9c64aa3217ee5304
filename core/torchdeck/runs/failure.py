"""Readable report on why a run failed, gathered from its journals and logs. Blocks."""

from __future__ import annotations

from dataclasses import dataclass

from torchdeck.contract.layout import RunLayout
from torchdeck.runs import reasons
from torchdeck.runs.state import RankExit, RunState
from torchdeck.runs.troubleshooting import Recognised, diagnose
from torchdeck.runs.view import RunView

OTHERS = 8
"""Number of other ranks whose exit is reported."""
_LINE = 300
_TAIL = 8 * 1024


@dataclass(frozen=True)
class FailureReport:
    """Report on a failure."""

    headline: str
    """The rank that failed first and how, or why the run is lost."""
    rank: int | None
    message: str
    traceback: str
    others: tuple[str, ...]
    """How other ranks ended, and the last line of each on standard error."""
    advice: Recognised | None


def read_failure(layout: RunLayout, view: RunView) -> FailureReport | None:
    """Return the report; None if the run has not failed.

    Args:
        layout: layout of the run.
        view: view of the run.
    """
    if view.state not in (RunState.FAILED, RunState.LOST):
        return None
    failure = view.first_failure
    headline = reasons.failure(failure) if failure is not None else view.why or "the run failed"
    if view.state is RunState.LOST or view.agent_error:
        headline = view.why
    return FailureReport(
        headline=headline,
        rank=failure.rank if failure is not None else None,
        message=failure.message if failure is not None else "",
        traceback=failure.traceback.rstrip() if failure is not None else "",
        others=_others(layout, view),
        advice=diagnose(layout, view),
    )


def _others(layout: RunLayout, view: RunView) -> tuple[str, ...]:
    if not view.attempts:
        return ()
    attempt = view.attempts[-1]
    first = view.first_failure.rank if view.first_failure is not None else None
    exits = sorted((exit_ for exit_ in attempt.exits if exit_.rank != first), key=lambda exit_: exit_.rank)
    lines = []
    for exit_ in exits[:OTHERS]:
        last = _last_line(layout, attempt.number, exit_.rank)
        lines.append(f"rank {exit_.rank} {_how(exit_)}{f': {last}' if last else ''}")
    if len(exits) > OTHERS:
        lines.append(f"and {len(exits) - OTHERS:,} more ranks")
    return tuple(lines)


def _how(exit_: RankExit) -> str:
    if exit_.signal:
        return f"was ended by {exit_.signal}"
    return f"exited with code {exit_.code}" if exit_.code else "finished"


def _last_line(layout: RunLayout, attempt: int, rank: int) -> str:
    """Return the last line of a rank on standard error."""
    try:
        with layout.attempt(attempt).rank(rank).stderr.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL))
            lines = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return next((line.strip()[:_LINE] for line in reversed(lines) if line.strip()), "")
