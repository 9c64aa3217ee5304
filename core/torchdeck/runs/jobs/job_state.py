"""State of a run that an exported sbatch script started: the job writes its journal and heartbeat itself."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Mapping
from typing import Any

from torchdeck.agent.gang.events import Failure
from torchdeck.agent.gang.verdict import describe_failure
from torchdeck.agent.ranks.failures import rank_failure
from torchdeck.contract.journal import Event
from torchdeck.contract.layout import AttemptLayout, RunLayout
from torchdeck.contract.run_states import FinalState, Outcome
from torchdeck.runs.replay import typed
from torchdeck.runs.replay.history import RunHistory
from torchdeck.runs.run_state import Liveness, NodeLiveness, RunState

JOB_NODE = "slurm"
"""Node under which the job journals, whichever nodes Slurm gives it."""
SCHEDULER = "slurm"
LATE = 60.0
"""Age in seconds of a heartbeat, written every 5 s, from which its time is shown; shared folders are slow."""
SILENT = 900.0
"""Age in seconds at which the job counts as ended without a last word."""


def is_job(history: RunHistory) -> bool:
    """Return whether an exported script started the run."""
    return history.created is not None and typed.text(history.created.fields, "scheduler") == SCHEDULER


def job_number(history: RunHistory, heartbeats: Mapping[str, Mapping[str, Any]]) -> str:
    """Return Slurm's number of the run's newest job; empty for any other run."""
    if not is_job(history):
        return ""
    return typed.text(heartbeats.get(JOB_NODE, {}), "job") or "?"


def job_liveness(history: RunHistory, heartbeats: Mapping[str, Mapping[str, Any]], now: float) -> Liveness:
    """Return whether the job may be alive, by the age of its heartbeat; `now` in unix seconds."""
    beat = typed.moment(heartbeats.get(JOB_NODE, {}), "t")
    if history.phase is RunState.RESTARTING:  # it waits in Slurm's queue, for as long as that takes
        return Liveness(nodes={JOB_NODE: NodeLiveness(known=False)})
    if beat is None or now - beat > SILENT or history.end is not None:
        return Liveness(nodes={JOB_NODE: NodeLiveness()})
    late = beat if now - beat > LATE else None
    return Liveness(nodes={JOB_NODE: NodeLiveness(agent=True)}, followed_until=late)


def with_cause(layout: RunLayout, event: Event) -> Event:
    """Return an event of a job with the rank that failed first, which the files of the ranks tell."""
    fields = event.fields
    failed = (event.name == "attempt_ended" and fields.get("outcome") == Outcome.FAILED) or (
        event.name == "finished" and fields.get("state") == FinalState.FAILED
    )
    if not failed:
        return event
    cause = _first_failure(layout.attempt(typed.whole(fields, "attempt") or 0))
    if event.name == "finished":
        why = "the job failed before its ranks started; its output says why"
        return dataclasses.replace(
            event, fields={**fields, "why": why if cause is None else describe_failure(cause)}
        )
    return (
        event
        if cause is None
        else dataclasses.replace(event, fields={**fields, "first_failure": cause._asdict()})
    )


def _first_failure(attempt: AttemptLayout) -> Failure | None:
    """Return the first rank that failed, not of the signal with which torchrun ends the others."""
    try:
        names = [path.name for path in attempt.ranks.iterdir() if path.name.isdecimal()]
        found = [rank_failure(attempt.rank(int(name)), int(name)) for name in names]
    except OSError:
        return None
    failures = [failure for failure in found if failure is not None]
    causes = [failure for failure in failures if failure.signal != signal.SIGTERM] or failures
    return min(causes, key=lambda failure: failure.time, default=None)
