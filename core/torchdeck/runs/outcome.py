"""Outcome of a run: its state and end by its journals, or by what its processes have left if all are gone."""

from __future__ import annotations

import dataclasses
import re
import signal
from collections.abc import Sequence

from torchdeck.agent.ranks.failures import read_exit, signal_of
from torchdeck.contract.journal import Event
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.run_states import Outcome, StopCause
from torchdeck.runs import reasons
from torchdeck.runs.jobs.job_state import JOB_NODE, is_job
from torchdeck.runs.node_troubles import clock_ahead, node_ahead
from torchdeck.runs.replay import typed
from torchdeck.runs.replay.history import ENDS, RunHistory
from torchdeck.runs.replay.journal_damage import JournalDamage
from torchdeck.runs.run_state import AttemptView, Failure, Liveness, RankExit, RunState

START_GRACE = 10.0
"""Seconds after the last event in which no process need be alive: one process hands over to another."""
_RANK = re.compile(r"[0-9]{1,7}", re.ASCII)
_CANCELLED = (StopCause.USER, StopCause.LIMIT)
"""Causes for which a run is stopped without having failed."""


def state_of(
    history: RunHistory,
    current: AttemptView | None,
    liveness: Liveness,
    now: float,
    damage: Sequence[JournalDamage],
) -> tuple[RunState, str]:
    """Return the state of a run, and why, from its history and from which of its processes are alive."""
    if history.end is not None:
        return _written_end(history, history.end)
    # before any agent was started, nothing unseen can be alive
    alive = liveness.nodes_alive if liveness.controller and history.is_begun else liveness.seen_alive
    if history.transport_failure is not None and not alive:
        return RunState.FAILED, history.transport_failure
    if liveness.controller or liveness.nodes_alive:
        return history.phase, reasons.of_phase(history)
    quiet = now - (_last_time(history, liveness) or 0.0)
    if quiet < START_GRACE and history.phase in (RunState.PENDING, RunState.PREPARING):
        return history.phase, reasons.of_phase(history)
    state, why = _left_alone(history, current, liveness)
    hidden = [each for each in damage if each.hides_events and each.node not in history.nodes.followers]
    if hidden and state in (RunState.FAILED, RunState.LOST):
        return _hidden_end(history, hidden)
    return state, why


def _written_end(history: RunHistory, end: Event) -> tuple[RunState, str]:
    """Return the end as written; a run that was given up is not lost if its ranks had all ended."""
    state, why = ENDS[typed.text(end.fields, "state")], typed.text(end.fields, "why")
    if state is not RunState.LOST:
        return state, why
    return unheard_end(history, why) or (state, why)


def unheard_end(history: RunHistory, why: str) -> tuple[RunState, str] | None:
    """Return the end of a run whose leader is silent, if all ranks of its attempt are known to have ended.

    Args:
        history: of the run.
        why: why its leader is given up.

    Returns:
        state and reason; None unless the attempt succeeded, or was stopped as asked.
    """
    ended = ended_unheard(history)
    if ended is None:
        return None
    state = RunState.SUCCEEDED if ended.outcome == Outcome.SUCCEEDED else RunState.CANCELLED
    return state, reasons.ended_unheard(ended, why)


def ended_unheard(history: RunHistory) -> AttemptView | None:
    """Return the current attempt with its outcome if all of its ranks succeeded, or were stopped as asked."""
    begun = history.attempts.get(history.attempt or 0)
    if begun is None:
        return None
    attempt = dataclasses.replace(begun, exits=history.exits(begun.number))
    attempt = judged_by_ranks(attempt, _world_size(history), history.stopping)
    asked = history.stopping is not None and history.stopping[1] in _CANCELLED
    if attempt.outcome == Outcome.SUCCEEDED or (attempt.outcome == Outcome.STOPPED and asked):
        return attempt
    return None  # after a failure the leader may have restarted the gang: this is no end


def _hidden_end(history: RunHistory, hidden: Sequence[JournalDamage]) -> tuple[RunState, str]:
    """Return the state if the final line may be an unreadable one: nothing shows that the run failed."""
    if history.stopping is not None and history.stopping[1] == StopCause.USER:
        return RunState.CANCELLED, reasons.stopped_unread(hidden[0].path)
    return RunState.LOST, reasons.end_unread([each.path for each in hidden])


def _left_alone(history: RunHistory, current: AttemptView | None, liveness: Liveness) -> tuple[RunState, str]:
    """Return what is still known if no process is alive and the run's end was never written."""
    if current is None:
        return RunState.FAILED, reasons.never_started(history.agents)
    outcomes: dict[str, RunState] = {
        Outcome.SUCCEEDED: RunState.SUCCEEDED,
        Outcome.STOPPED: RunState.CANCELLED,
        Outcome.FAILED: RunState.FAILED,
    }
    known = outcomes.get(current.outcome or "")
    if known is not None:
        return known, reasons.of_outcome(current)
    if is_job(history):
        return RunState.LOST, reasons.job_silent(history.last_times.get(JOB_NODE))
    return RunState.LOST, reasons.lost(same_boot=liveness.same_boot)


def end_time(
    history: RunHistory, current: AttemptView | None, state: RunState, liveness: Liveness
) -> float | None:
    """Return when the run ended, by our clock; None while it is active."""
    if not state.is_terminal:
        return None
    if history.finished is not None:
        return history.finished.time - clock_ahead(history, liveness)
    if history.end is not None:
        return history.end.time  # a controller's, by this machine's clock
    if current is not None and current.ended is not None:
        return current.ended
    # the time was not recorded; the last event is the latest time known
    return _last_time(history, liveness)


def _last_time(history: RunHistory, liveness: Liveness) -> float | None:
    """Return the time of the last event by our clock."""
    return max((time - node_ahead(node, liveness) for node, time in history.last_times.items()), default=None)


def is_resumable(history: RunHistory, state: RunState) -> bool:
    """Return whether the run can continue from a checkpoint."""
    if history.end is not None:
        return history.end.fields.get("resumable") is True and state is not RunState.SUCCEEDED
    return state.is_terminal and state is not RunState.SUCCEEDED and history.checkpoints.newest is not None


def read_exit_files(layout: RunLayout, attempt: AttemptView, world_size: int | None) -> list[RankExit]:
    """Read the exits of ranks that no journal has, as written by each rank's parent."""
    folder, ranks = layout.attempt(attempt.number), attempt.world_size or world_size or 0
    known = {exit_.rank for exit_ in attempt.exits}
    try:
        names = [path.name for path in folder.ranks.iterdir() if _RANK.fullmatch(path.name)]
    except OSError:
        return []
    there = sorted(rank for name in names if (rank := int(name)) < ranks and rank not in known)
    codes = [(rank, read_exit(folder.rank(rank).exit)) for rank in there]
    return [RankExit(rank, code, _signal_name(code)) for rank, code in codes if code is not None]


def judged(history: RunHistory, current: AttemptView, liveness: Liveness) -> AttemptView:
    """Return the current attempt with the outcome of its ranks' exits, if no process can add to them."""
    if history.is_given_up:
        ended = ended_unheard(history)
        return current if ended is None else dataclasses.replace(current, outcome=ended.outcome)
    if history.end is not None or liveness.controller or liveness.nodes_alive:
        return current
    return judged_by_ranks(current, _world_size(history), history.stopping)


def _world_size(history: RunHistory) -> int | None:
    return None if history.created is None else typed.whole(history.created.fields, "world_size")


def judged_by_ranks(
    attempt: AttemptView, world_size: int | None, stopping: tuple[str, str] | None
) -> AttemptView:
    """Return the attempt with the outcome of its ranks' exits; unchanged unless all of them ended.

    Args:
        attempt: attempt without any live process.
        world_size: world size of the run, for attempts that do not record their own.
        stopping: kind and cause of the stop request, if there was one.
    """
    ranks = attempt.world_size or world_size or 0
    exits = {exit_.rank: exit_ for exit_ in attempt.exits}
    if attempt.outcome is not None or ranks == 0 or len(exits) < ranks:
        return attempt
    if stopping is not None:
        return dataclasses.replace(
            attempt, outcome=Outcome.STOPPED if stopping[1] in _CANCELLED else Outcome.FAILED
        )
    failed = [exit_ for exit_ in exits.values() if exit_.code != 0]
    if not failed:
        return dataclasses.replace(attempt, outcome=Outcome.SUCCEEDED)
    # torchrun ends the others with SIGTERM if one fails
    first = min(failed, key=lambda exit_: exit_.signal == signal.SIGTERM.name)
    failure = Failure(first.rank, first.code, first.signal, node=first.node)
    return dataclasses.replace(attempt, outcome=Outcome.FAILED, first_failure=failure)


def _signal_name(code: int) -> str | None:
    number = signal_of(code)
    try:
        return None if number is None else signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
