"""Recovered state: the journal of an earlier agent of the same run, replayed for its successor. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from torchdeck.agent.gang.events import Failure, ResumePoint
from torchdeck.contract.journal import Event
from torchdeck.contract.plan.elastic import Place
from torchdeck.contract.run_states import Outcome, StartReason, StopCause, StopKind

ENDS = ("finished", "node_finished")
"""The last event of a session: of the run, or of a node that does not lead."""

LOOP_SECONDS = 600.0
"""Shorter attempts that report no step at all count as fruitless; a longer one may have trained without
reporting."""


class Launching(NamedTuple):
    """How an attempt on several nodes was begun, as its leader journaled it."""

    attempt: int
    reason: StartReason
    port: int
    resume: ResumePoint | None
    left_out: tuple[Place, ...]


class RecoveredState(NamedTuple):
    """Where the run was when its last agent ended."""

    attempt: int = 0
    """Number of the last attempt, of any session of the run; one that could not be launched counts."""
    open: bool = False
    """The attempt has started and has not been journaled as ended."""
    running: bool = False
    quiet: bool = False
    """Nothing has come of the watched training for a while."""
    signalled: bool = False
    """SIGTERM or worse has been sent in this attempt."""
    outcome: Outcome | None = None
    """Outcome of the last attempt of this session, once it ended."""
    failure: Failure | None = None
    restart_reason: StartReason | None = None
    """Set while another attempt is due."""
    restarts: int = 0
    """At the size that the gang has now."""
    port_retries: int = 0
    never_ran: int = 0
    """Attempts in a row that ended before a rank was started, because a node did not answer."""
    ran: bool = False
    """An attempt of this session trained."""
    suspect: Place | None = None
    """Place whose failure ended the last attempt, if the gang may continue without it and nothing was saved
    since.
    """
    left_out: tuple[Place, ...] = ()
    """Places that were given up."""
    stop: tuple[StopKind, StopCause, str] | None = None
    """(kind, why, detail)"""
    finishes: int = 0
    requests: frozenset[str] = frozenset()
    """Ids of requests already taken from the inbox."""
    checkpoints: frozenset[tuple[str, int]] = frozenset()
    """(path, step) of checkpoints already journaled."""
    exited: frozenset[int] = frozenset()
    """Ranks of the open attempt whose exit is journaled."""
    hung: frozenset[int] = frozenset()
    """Flagged ranks of the open attempt."""
    hang: tuple[int, str] | None = None
    """(rank, detail) of the first hang in the open attempt, over or not."""
    examination: int = 0
    """Number of the last examination of the open attempt that is journaled."""
    stopped_at: float | None = None
    """Unix time of the open attempt's first signal or stop."""
    started: float | None = None
    """Unix time of this session's first attempt."""
    began: float = 0.0
    """Unix time of the last attempt."""
    seconds: float = 0.0
    """Its duration; of an open one, until the agent took over."""
    step: int = 0
    """Most steps that a rank of the last attempt has reported, once it ended."""
    saved: bool = False
    """A new checkpoint was saved in the last attempt."""
    saved_step: int | None = None
    """Highest step of a checkpoint of this session."""
    fruitless: int = 0
    """Attempts in a row, before the last restart, without a new step or checkpoint."""
    reached: int = 0
    """Most steps of all attempts before the last restart."""
    traceback: str = ""
    """Traceback of the failed attempt before the last restart."""
    saves_on_stop: bool = False
    """The open attempt's script saves and ends when it is asked to stop."""
    asked_to_save: bool = False
    """The open attempt's script was asked to save and end."""
    launching: Launching | None = None
    """The open attempt of several nodes, at the leader; its own part is open once its torchrun was up."""

    @property
    def gang_open(self) -> bool:
        """The attempt has begun, here or on another node, and has not been journaled as ended."""
        return self.open or self.launching is not None


def replay(events: Iterable[Event], session: int) -> RecoveredState:
    """Fold the node's journal.

    Args:
        events: the whole journal.
        session: number of `finished` events of earlier sessions (a finished run may be resumed).
    """
    recovered = RecoveredState()
    for event in events:
        if event.name == "node_finished" and event.fields.get("may_return") is True:
            continue  # its session of the run continues
        recovered = _step(recovered, event)
        if event.name in ENDS and recovered.finishes <= session:
            recovered = _new_session(recovered, recovered.finishes)
        elif event.name == "agent_started" and recovered.finishes < (begun := session_of(event)) <= session:
            # a follower that was lost did not see the end of the last one
            recovered = _new_session(recovered, begun)
    return recovered if recovered.finishes >= session or session == 0 else _new_session(recovered, session)


def _new_session(recovered: RecoveredState, finishes: int) -> RecoveredState:
    """Keep the numbers of attempts, requests and checkpoints; reset all else."""
    return RecoveredState(
        attempt=recovered.attempt,
        finishes=finishes,
        requests=recovered.requests,
        checkpoints=recovered.checkpoints,
    )


def session_of(started: Event) -> int:
    """Return the session of the run in which an agent started; the journal calls it `life`."""
    session = started.fields.get("life")
    return session if isinstance(session, int) else 0


def _step(recovered: RecoveredState, event: Event) -> RecoveredState:
    fields = event.fields
    if event.name == "attempt_started":
        return _attempt_started(recovered, event)
    if event.name == "launching":
        return _launching(recovered, event)
    if event.name == "attempt_over":
        return recovered._replace(open=False)
    if event.name == "running":
        return recovered._replace(running=True, ran=True)
    if event.name in ("quiet", "quiet_over"):
        return recovered._replace(quiet=event.name == "quiet")
    if event.name == "signalled":
        return recovered._replace(signalled=True, stopped_at=recovered.stopped_at or event.time)
    if event.name == "rank_exited":
        return recovered._replace(exited=recovered.exited | _rank(fields))
    if event.name in ("hang", "examined"):
        recovered = _examined(recovered, fields)
        return _hang(recovered, fields) if event.name == "hang" else recovered
    if event.name == "hang_over":
        return recovered._replace(hung=recovered.hung - _rank(fields))
    if event.name == "stopping":
        kind = StopKind.read(fields.get("kind"), StopKind.NOW)
        why = StopCause.read(fields.get("why"), StopCause.USER)
        stop = (kind, why, str(fields.get("detail") or ""))
        asked = recovered.asked_to_save or (kind is StopKind.GRACEFUL and recovered.saves_on_stop)
        stop = stop if recovered.stop is None else (stop[0], *recovered.stop[1:])
        return recovered._replace(stop=stop, asked_to_save=asked)
    if event.name == "saves_on_stop":
        return recovered._replace(saves_on_stop=fields.get("saves") is True)
    if event.name == "attempt_ended":
        failure = _failure(fields.get("first_failure"))
        return recovered._replace(
            attempt=max(recovered.attempt, int(fields.get("attempt", 0))),
            open=False,
            launching=None,
            outcome=Outcome.read(fields.get("outcome"), Outcome.FAILED),
            failure=failure,
            seconds=max(0.0, event.time - recovered.began),
            step=_whole(fields.get("step")),
            saved=fields.get("saved") is True,
        )
    if event.name == "restarting":
        return _restarting(recovered, fields)
    if event.name == "left_out":
        return recovered._replace(left_out=(*recovered.left_out, *_given_up(fields)))
    if event.name in ENDS:
        return recovered._replace(finishes=recovered.finishes + 1)
    if event.name == "request":
        return recovered._replace(requests=recovered.requests | {str(fields.get("id"))})
    if event.name == "checkpoint":
        step = fields.get("step")  # unknown of some that a program wrote by itself
        seen = (str(fields.get("path")), step if isinstance(step, int) else -1)
        return _saved(recovered._replace(checkpoints=recovered.checkpoints | {seen}), step)
    return recovered


def _saved(recovered: RecoveredState, value: object) -> RecoveredState:
    step = value if isinstance(value, int) else None
    if not is_new_save(step, recovered.saved_step):
        return recovered
    highest = recovered.saved_step if step is None else step
    return recovered._replace(suspect=None, saved=True, saved_step=highest)


def is_new_save(step: int | None, highest: int | None) -> bool:
    """Whether a checkpoint of `step` is progress after those up to `highest`; None: unknown, none yet.

    A program that starts from the beginning after each failure saves its early steps again.
    """
    return step is None or highest is None or step > highest


def _launching(recovered: RecoveredState, event: Event) -> RecoveredState:
    fields, point = event.fields, event.fields.get("resume")
    begun = _attempt_started(recovered._replace(launching=None), event)
    left_out = [_place(place) for place in fields.get("left_out") or ()]
    return begun._replace(
        open=False,
        launching=Launching(
            attempt=begun.attempt,
            reason=StartReason.read(fields.get("reason"), StartReason.RESTART),
            port=int(fields.get("port") or 0),
            resume=_resume_point(point) if isinstance(point, dict) else None,
            left_out=tuple(place for place in left_out if place is not None),
        ),
    )


def _resume_point(value: Mapping[str, Any]) -> ResumePoint:
    point = ResumePoint(**value)
    return point._replace(parts=tuple(point.parts), here=tuple(point.here))


def _attempt_started(recovered: RecoveredState, event: Event) -> RecoveredState:
    if recovered.launching is not None:  # the gang began before this node's part of it
        return recovered._replace(open=True)
    return recovered._replace(
        attempt=int(event.fields.get("attempt", recovered.attempt + 1)),
        open=True,
        running=False,
        signalled=False,
        outcome=None,
        failure=None,
        restart_reason=None,
        exited=frozenset(),
        hung=frozenset(),
        hang=None,
        examination=0,
        stopped_at=None,
        started=recovered.started or event.time,
        began=event.time,
        step=0,
        saved=False,
        saves_on_stop=False,
        asked_to_save=False,
    )


def _restarting(recovered: RecoveredState, fields: Mapping[str, Any]) -> RecoveredState:
    reason, given_up = StartReason.read(fields.get("reason"), StartReason.RESTART), _given_up(fields)
    failure = recovered.failure
    recovered = recovered._replace(traceback="" if failure is None else failure.traceback or "")
    if reason is StartReason.PORT:
        return recovered._replace(restart_reason=reason, port_retries=recovered.port_retries + 1)
    if reason is StartReason.NEVER_RAN:
        return recovered._replace(restart_reason=reason, never_ran=recovered.never_ran + 1)
    recovered = recovered._replace(never_ran=0)
    if reason in (StartReason.SMALLER, StartReason.REPLACED) and given_up:
        left_out = (*recovered.left_out, *given_up)
        return recovered._replace(
            restart_reason=reason, restarts=0, suspect=None, left_out=left_out, fruitless=0
        )
    suspect, recovered = _place(fields.get("suspect")), _counted(recovered)
    return recovered._replace(
        restart_reason=StartReason.RESTART, restarts=recovered.restarts + 1, suspect=suspect
    )


def fruitless_attempts(before: int, reached: int, step: int, seconds: float, *, saved: bool) -> int:
    """Return how many attempts in a row brought nothing, now that another one has failed.

    Args:
        before: such attempts until then.
        reached: most steps of the attempts before it.
        step: most steps that it reported itself; 0: none.
        seconds: that it took.
        saved: it saved a checkpoint.
    """
    brought = saved or step > reached
    unknown = not step and not reached and seconds > LOOP_SECONDS
    return 0 if brought or unknown else before + 1


def _counted(recovered: RecoveredState) -> RecoveredState:
    """Count the failed attempt, as `Recovery` does."""
    before, reached, step = recovered.fruitless, recovered.reached, recovered.step
    return recovered._replace(
        fruitless=fruitless_attempts(before, reached, step, recovered.seconds, saved=recovered.saved),
        reached=max(reached, step),
        step=0,
        saved=False,
    )


def _whole(value: object) -> int:
    return value if type(value) is int else 0


def _given_up(fields: Mapping[str, Any]) -> tuple[Place, ...]:
    """Return the place that the gang continues without, and the spares that did not answer."""
    suspect, skipped = _place(fields.get("suspect")), fields.get("skipped")
    names = skipped if isinstance(skipped, (list, tuple)) else ()
    spares = tuple(Place(name, None) for name in names if isinstance(name, str))
    return () if suspect is None else (suspect, *spares)


def _hang(recovered: RecoveredState, fields: Mapping[str, Any]) -> RecoveredState:
    rank = fields.get("rank")
    if not isinstance(rank, int):
        return recovered
    first = (rank, str(fields.get("detail") or ""))
    return recovered._replace(hung=recovered.hung | {rank}, hang=recovered.hang or first)


def _examined(recovered: RecoveredState, fields: Mapping[str, Any]) -> RecoveredState:
    name = str(fields.get("examination"))
    number = int(name) if name.isdecimal() and name.isascii() and len(name) < 10 else 0
    return recovered._replace(examination=max(recovered.examination, number))


def _place(value: object) -> Place | None:
    if not isinstance(value, dict) or not isinstance(value.get("node"), str):
        return None
    local_rank = value.get("local_rank")
    return Place(value["node"], local_rank if isinstance(local_rank, int) else None)


def _rank(fields: Mapping[str, Any]) -> frozenset[int]:
    rank = fields.get("rank")
    return frozenset([rank]) if isinstance(rank, int) else frozenset()


def _failure(value: object) -> Failure | None:
    if not isinstance(value, dict):
        return None
    return Failure(
        rank=value.get("rank"),
        code=value.get("code"),
        signal=value.get("signal"),
        message=str(value.get("message", "")),
        traceback=value.get("traceback"),
        time=float(value.get("time") or 0.0),
        error=float(value.get("error") or 0.0),
        tied=tuple(rank for rank in value.get("tied") or () if isinstance(rank, int)),
        gone=value.get("gone") is True,
    )
