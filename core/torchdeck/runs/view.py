"""RunView: the state of a run, as a pure fold over its journals, heartbeats, liveness and the current
time.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torchdeck.contract.journal import Event
from torchdeck.contract.plan.launch_plan import WATCHED
from torchdeck.runs import reasons
from torchdeck.runs.jobs.job_state import job_number
from torchdeck.runs.node_troubles import NodeTrouble, clock_ahead, node_ahead, node_troubles, unheard
from torchdeck.runs.outcome import START_GRACE, end_time, is_resumable, judged, state_of
from torchdeck.runs.replay import typed
from torchdeck.runs.replay.alerts_seen import AlertView
from torchdeck.runs.replay.history import RunHistory
from torchdeck.runs.replay.journal_damage import JournalDamage
from torchdeck.runs.replay.ranks_seen import rank_views
from torchdeck.runs.run_state import (
    AttemptView,
    CheckpointSeen,
    DeviceHolder,
    Failure,
    Hang,
    Liveness,
    RankView,
    RunState,
    Straggler,
)

IMPORTED = "imported"
"""Kind of a run that another tool recorded: it has no plan and no run file."""
AGENT_ERROR_SINCE = 600.0
"""Seconds before a failure in which an agent's error may have caused it."""


@dataclass(frozen=True)
class RunView:
    """External view of one run; times in seconds since the epoch."""

    id: str
    name: str
    state: RunState
    why: str
    """Reason for this state, if there is one to show; else empty."""
    created: float | None
    started: float | None
    ended: float | None
    attempt: int | None
    attempts: tuple[AttemptView, ...]
    kind: str
    target: str
    source: str
    """Run file it was started from, with its original path; empty for a command line without one."""
    overrides: tuple[str, ...]
    """`key=value` words of its start."""
    code_folder: str
    """Folder of the user's code, of which it executes a copy; empty if it executes the files in place."""
    strategy: str
    world_size: int | None
    """World size of its plan; an attempt may have fewer ranks."""
    fingerprint: str
    first_failure: Failure | None
    resumable: bool
    checkpoint: CheckpointSeen | None
    """Newest complete checkpoint that the agent reported."""
    devices: tuple[str, ...]
    held_by: tuple[DeviceHolder, ...]
    refused: bool
    """Whether it did not start because another run has its devices."""
    hangs: tuple[Hang, ...]
    ranks: tuple[RankView, ...]
    requests_waiting: tuple[str, ...]
    controller_alive: bool
    agent_alive: bool
    processes_alive: bool
    warnings: tuple[str, ...]
    finishes: int
    """Number of times it has finished; a resume names this number."""
    end_written: bool
    """Whether a journal has the end of this session; if all its processes are gone it may be missing."""
    troubles: tuple[NodeTrouble, ...] = ()
    """Problems of nodes while it is active; their texts are among `warnings`."""
    nodes_alone: tuple[str, ...] = ()
    """Nodes whose ranks continue without the leader, and after the end of the run, as far as is known here.
    """
    unfenced: tuple[str, ...] = ()
    """Nodes that did not answer when the run was given up: processes of it may still be alive there."""
    found_ranks: tuple[tuple[int, int], ...] = ()
    """(rank, process) of ranks that a plain process (`run.launcher = "python"`) started itself."""
    agent_error: str = ""
    """Agents that ended with internal errors, as a sentence; empty if none did, or long ago."""
    stragglers: tuple[Straggler, ...] = ()
    """Ranks that make the others wait, or did until the end of the run."""
    alerts: tuple[AlertView, ...] = ()
    """Alerts about it, oldest first."""
    job: str = ""
    """Number of its job, if an exported script started it under Slurm; else empty."""
    followed_until: float | None = None
    """Time of the last report on its nodes, for a run that may be active without a controller here; else
    None. Everything else is as of that time.
    """

    @property
    def exit_code(self) -> int:
        """Exit status of the command line for it; 0 while it is active."""
        if self.state is RunState.CANCELLED:
            return 130
        if self.state in (RunState.FAILED, RunState.LOST):
            return 3 if self.refused else 1
        return 0

    @property
    def may_have_audit(self) -> bool:
        """Whether its samples can be compared with the plan; the audit itself costs an import of NumPy."""
        return self.is_over and self.kind not in ("script", "module", IMPORTED, WATCHED)

    @property
    def is_foreign(self) -> bool:
        """Whether Torchdeck did not start it: it was imported, is only watched, or is a job of Slurm."""
        return self.kind in (IMPORTED, WATCHED) or bool(self.job)

    @property
    def is_ended_watch(self) -> bool:
        """Whether what was watched is over, and only its parent process knows whether it failed."""
        return self.kind == WATCHED and self.state is RunState.SUCCEEDED

    @property
    def state_word(self) -> str:
        """State as it is shown; the state itself is `state`."""
        return "ENDED" if self.is_ended_watch else self.state.value

    @property
    def is_over(self) -> bool:
        return self.state.is_terminal

    @property
    def is_hung(self) -> bool:
        """Whether ranks of it make no progress now."""
        return bool(self.hangs) and not self.is_over

    @property
    def needs_controller(self) -> bool:
        """Whether it is active, or may be on some node."""
        return not self.job and (not self.is_over or bool(self.nodes_alone or self.unfenced))

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers; `exit_code` is null while the run is active."""
        value = dataclasses.asdict(self)
        del value["unfenced"]  # for controllers; `runs show` has it as text
        for attempt in value["attempts"]:
            for exit_ in attempt["exits"]:
                del exit_["time"]  # the timeline has it
        if self.checkpoint is not None and not self.checkpoint.kind:
            del value["checkpoint"]["kind"], value["checkpoint"]["about"]
        value["state"] = self.state.value
        value["exit_code"] = self.exit_code if self.is_over else None
        return value


def view(
    run_id: str,
    history: RunHistory,
    heartbeats: Mapping[str, Mapping[str, Any]],
    liveness: Liveness,
    now: float,
    damage: Sequence[JournalDamage] = (),
) -> RunView:
    """Return the state of a run by its history and its nodes' heartbeats; `now` in Unix seconds. Pure."""
    created = history.created.fields if history.created else {}
    attempts, current = _attempts(history, heartbeats, liveness)
    state, reason = state_of(history, current, liveness, now, damage)
    agent_error = _agent_error(history, current, liveness)
    hangs = tuple(hang for _, hang in sorted(history.hangs.items()))
    troubles = () if state.is_terminal else node_troubles(history, heartbeats, liveness, now)
    silent = () if state.is_terminal else unheard(history, liveness, now)
    first = min((attempt.started for attempt in attempts), default=None)
    return RunView(
        id=run_id,
        name=typed.text(created, "name") or run_id,
        state=state,
        why=_why(state, reason, agent_error, attempts),
        created=_created(history, first),
        started=first,
        ended=end_time(history, current, state, liveness),
        attempt=history.attempt,
        attempts=attempts,
        kind=typed.text(created, "kind"),
        target=typed.text(created, "target"),
        source=typed.text(created, "source"),
        overrides=typed.texts(created, "overrides"),
        code_folder=typed.text(created, "code_folder"),
        strategy=typed.text(created, "strategy"),
        world_size=typed.whole(created, "world_size"),
        fingerprint=typed.text(created, "fingerprint"),
        first_failure=current.first_failure if current else None,
        resumable=is_resumable(history, state),
        checkpoint=_checkpoint(history, history.end, liveness),
        devices=history.nodes.devices,
        held_by=history.held_by,
        refused=history.refused,
        hangs=hangs,
        ranks=rank_views(history, heartbeats, liveness, now),
        requests_waiting=history.requests_waiting,
        controller_alive=liveness.controller,
        agent_alive=liveness.agent,
        processes_alive=_processes_alive(history, liveness),
        warnings=(*silent, *_warnings(history, state, hangs, troubles, damage, agent_error)),
        found_ranks=() if state.is_terminal else tuple(history.reports.found_ranks.items()),
        agent_error=agent_error,
        finishes=history.finishes,
        end_written=history.end is not None,
        troubles=troubles,
        nodes_alone=tuple(sorted(history.nodes.go_on_alone)),
        unfenced=tuple(sorted(history.unfenced)),
        stragglers=history.reports.stragglers.of(history.attempt),
        job=job_number(history, heartbeats),
        followed_until=None if state.is_terminal else liveness.followed_until,
    )


def _why(state: RunState, reason: str, agent_error: str, attempts: Sequence[AttemptView]) -> str:
    """Return why the run is in its state, with the place of the first failure."""
    if state in (RunState.FAILED, RunState.LOST):
        # later reports of ranks may be a consequence
        reason = "; ".join(filter(None, (agent_error, reason)))
    return reasons.placed(reason, attempts[-1].first_failure if attempts else None)


def _processes_alive(history: RunHistory, liveness: Liveness) -> bool:
    # the leader writes the end last: a process that cannot be seen after it is taken to be gone
    return liveness.nodes_alive if history.end is None and history.is_begun else liveness.seen_alive


def _attempts(
    history: RunHistory, heartbeats: Mapping[str, Mapping[str, Any]], liveness: Liveness
) -> tuple[tuple[AttemptView, ...], AttemptView | None]:
    """Return all attempts, and the current one."""
    ahead = clock_ahead(history, liveness)
    attempts = tuple(
        _whole_attempt(history.attempts[number], history, heartbeats, ahead)
        for number in sorted(history.attempts)
    )
    current = next((attempt for attempt in attempts if attempt.number == history.attempt), None)
    if current is not None:
        current = judged(history, current, liveness)
        attempts = tuple(current if each.number == current.number else each for each in attempts)
    return attempts, current


def _whole_attempt(
    begun: AttemptView, history: RunHistory, heartbeats: Mapping[str, Mapping[str, Any]], ahead: float
) -> AttemptView:
    """Return the attempt with its ranks' exits, times by our clock and, in a run of several nodes, the node
    of the first failure.
    """
    ended = None if begun.ended is None else begun.ended - ahead
    attempt = dataclasses.replace(
        begun, exits=history.exits(begun.number), started=begun.started - ahead, ended=ended
    )
    first = attempt.first_failure
    if first is None:
        return attempt
    created = history.created.fields if history.created else {}
    first = _with_own_paths(first, typed.text(created, "run_id"), typed.text(created, "code_folder"))
    attempt = dataclasses.replace(attempt, first_failure=first)
    if len(history.agents) < 2:
        return attempt
    told = [each.node for each in attempt.exits if each.rank == first.rank]
    told += [
        node
        for node, beat in heartbeats.items()
        if typed.whole(beat, "attempt") == attempt.number and str(first.rank) in typed.mapping(beat, "ranks")
    ]
    node = told[0] if told else ""
    return dataclasses.replace(attempt, first_failure=dataclasses.replace(first, node=node))


def _with_own_paths(failure: Failure, run_id: str, folder: str) -> Failure:
    """Return the failure with the user's own files in place of the run's copies of them, line by line the
    same.
    """
    if not (run_id and folder):
        return failure
    code = rf"/{re.escape(run_id)}/code(?=/)"
    in_copy = re.compile(rf"""(?P<before>File "|(?<![^\s'"(]))/(?:(?<=File "/)[^"\n]*?|[^\s"]*?){code}""")
    message, traceback = (
        in_copy.sub(lambda found: found["before"] + folder, text)
        for text in (failure.message, failure.traceback)
    )
    return dataclasses.replace(failure, message=message, traceback=traceback)


def _agent_error(history: RunHistory, current: AttemptView | None, liveness: Liveness) -> str:
    """Return which agents ended with internal errors, not long before the current attempt ended."""
    since = 0.0
    if current is not None:
        failed = current.first_failure.time if current.first_failure is not None else None
        failed = 0.0 if failed is None else failed - clock_ahead(history, liveness)
        since = max(current.started - START_GRACE, failed - AGENT_ERROR_SINCE)
    found = {
        node: event
        for node, event in history.agent_errors.items()
        if event.time - node_ahead(node, liveness) >= since
    }
    return reasons.agent_failed({node: typed.text(event.fields, "error") for node, event in found.items()})


def _created(history: RunHistory, started: float | None) -> float | None:
    """Return the creation time. A directory made later, on a machine that attaches to the run, records it."""
    if history.created is None:
        return None
    return history.created.time if started is None else min(history.created.time, started)


def _checkpoint(history: RunHistory, finished: Event | None, liveness: Liveness) -> CheckpointSeen | None:
    seen = history.checkpoints.newest
    path = typed.text(finished.fields, "checkpoint") if finished else ""
    if path and (seen is None or seen.path != path):
        known = [each for each in history.checkpoints.of_script.values() if each.path == path]
        seen = known[-1] if known else CheckpointSeen(None, path)
    if seen is None or seen.time is None:
        return seen
    return dataclasses.replace(seen, time=seen.time - node_ahead(seen.node, liveness))


def _warnings(
    history: RunHistory,
    state: RunState,
    hangs: Sequence[Hang],
    troubles: tuple[NodeTrouble, ...],
    damage: Sequence[JournalDamage],
    agent_error: str,
) -> tuple[str, ...]:
    found = [each.text for each in damage]
    if agent_error and state not in (RunState.FAILED, RunState.LOST):
        found.append(agent_error)
    found += typed.absent(history.created.fields) if history.created is not None else ()
    found += [reasons.damaged(path, why) for path, why in history.reports.damaged.items()]
    if history.reports.numbers_left_out:
        found.append(reasons.numbers_left_out(sorted(history.reports.numbers_left_out)))
    created = history.created.fields if history.created is not None else {}
    for event in history.reports.results.values():
        found += reasons.results(event.fields, typed.text(created, "code_folder"))
    if history.reports.strangers is not None:
        found.append(reasons.strangers(history.reports.strangers.fields))
    if state.is_terminal:
        hung = history.hangs_at_stop if state is not RunState.SUCCEEDED else {}
        found += [reasons.hung_before_stop(hung[rank]) for rank in sorted(hung)[:1]]
        found += [reasons.slowed(each) for each in history.reports.stragglers.of(history.attempt)]
        return (*found, *(reasons.alone(node) for node in sorted(history.nodes.go_on_alone)))
    if history.reports.quiet is not None:
        found.append(reasons.quiet(history.reports.quiet.fields))
    found += [reasons.hang(hang) for hang in hangs]
    found += [each.detail for each in history.reports.stragglers.of(history.attempt)]
    found += [reasons.leaderless(node, what) for node, what in sorted(history.nodes.leaderless.items())]
    if left := sorted(history.nodes.gave_up_leader - history.nodes.leaderless.keys()):
        found.append(reasons.gave_leader_up(left))
    if history.nodes.untold:
        found.append(reasons.untold(history.nodes.untold))
    found += [trouble.text for trouble in troubles]
    return tuple(found)
