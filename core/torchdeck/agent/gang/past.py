"""What an earlier agent of the same run journaled, folded for the one that takes over. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from torchdeck.agent.gang.events import Failure, ResumePoint
from torchdeck.contract.journal import Event
from torchdeck.contract.plan.elastic import Place
from torchdeck.contract.run_states import Outcome, StartReason, StopCause, StopKind

ENDS = ("finished", "node_finished")
"""The last event of a life: of the run, or of a node that does not lead."""


class Launching(NamedTuple):
    """How an attempt on several nodes was begun, as its lead journaled it."""

    attempt: int
    reason: StartReason
    port: int
    resume: ResumePoint | None
    left_out: tuple[Place, ...]


class Past(NamedTuple):
    """Where the run was when its last agent ended."""

    attempt: int = 0
    """Number of the last attempt, of any life of the run; one that could not be launched counts."""
    open: bool = False
    """The attempt has started and has not been journaled as ended."""
    running: bool = False
    signalled: bool = False
    """SIGTERM or worse has been sent in this attempt."""
    outcome: Outcome | None = None
    """Of the last attempt of this life, once it ended."""
    failure: Failure | None = None
    restart_reason: StartReason | None = None
    """Set while another attempt is due."""
    restarts: int = 0
    """At the size that the gang has now."""
    port_retries: int = 0
    never_ran: int = 0
    """Attempts in a row that ended before a rank was started, because a node did not answer."""
    ran: bool = False
    """An attempt of this life trained."""
    suspect: Place | None = None
    """Whose failure ended the last attempt, where the gang may go on without and nothing was saved since."""
    left_out: tuple[Place, ...] = ()
    """Who was given up."""
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
    """Ranks of the open attempt that stand flagged."""
    hang: tuple[int, str] | None = None
    """(rank, detail) of the first hang in the open attempt, over or not."""
    stopped_at: float | None = None
    """Unix time of the open attempt's first signal or stop."""
    started: float | None = None
    """Unix time of this life's first attempt."""
    launching: Launching | None = None
    """The open attempt of several nodes, at the lead; its own part is open once its torchrun was up."""

    @property
    def gang_open(self) -> bool:
        """The attempt has begun, here or on another node, and has not been journaled as ended."""
        return self.open or self.launching is not None


def fold_past(events: Iterable[Event], life: int) -> Past:
    """Fold the node's journal.

    Args:
        events: the whole journal.
        life: how many `finished` events belong to lives before this one (a finished run may be resumed).
    """
    past = Past()
    for event in events:
        if event.name == "node_finished" and event.fields.get("may_return") is True:
            continue  # its life of the run goes on
        past = _step(past, event)
        if event.name in ENDS and past.finishes <= life:
            past = _new_life(past, past.finishes)
        elif event.name == "agent_started" and past.finishes < (begun := _life(event.fields)) <= life:
            past = _new_life(past, begun)  # a follower that was lost did not see the end of the last one
    return past if past.finishes >= life or life == 0 else _new_life(past, life)


def _new_life(past: Past, finishes: int) -> Past:
    """Numbers of attempts, requests and checkpoints go on, all else begins anew."""
    return Past(attempt=past.attempt, finishes=finishes, requests=past.requests, checkpoints=past.checkpoints)


def _life(fields: Mapping[str, Any]) -> int:
    life = fields.get("life")
    return life if isinstance(life, int) else 0


def _step(past: Past, event: Event) -> Past:
    fields = event.fields
    if event.name == "attempt_started":
        return _attempt_started(past, event)
    if event.name == "launching":
        return _launching(past, event)
    if event.name == "attempt_over":
        return past._replace(open=False)
    if event.name == "running":
        return past._replace(running=True, ran=True)
    if event.name == "signalled":
        return past._replace(signalled=True, stopped_at=past.stopped_at or event.time)
    if event.name == "rank_exited":
        return past._replace(exited=past.exited | _rank(fields))
    if event.name == "hang":
        return _hang(past, fields)
    if event.name == "hang_over":
        return past._replace(hung=past.hung - _rank(fields))
    if event.name == "stopping":
        kind = StopKind.read(fields.get("kind"), StopKind.NOW)
        why = StopCause.read(fields.get("why"), StopCause.USER)
        stop = (kind, why, str(fields.get("detail") or ""))
        return past._replace(stop=stop if past.stop is None else (stop[0], *past.stop[1:]))
    if event.name == "attempt_ended":
        failure = _failure(fields.get("first_failure"))
        return past._replace(
            attempt=max(past.attempt, int(fields.get("attempt", 0))),
            open=False,
            launching=None,
            outcome=Outcome.read(fields.get("outcome"), Outcome.FAILED),
            failure=failure,
        )
    if event.name == "restarting":
        return _restarting(past, fields)
    if event.name == "left_out":
        return past._replace(left_out=(*past.left_out, *_given_up(fields)))
    if event.name in ENDS:
        return past._replace(finishes=past.finishes + 1)
    if event.name == "request":
        return past._replace(requests=past.requests | {str(fields.get("id"))})
    if event.name == "checkpoint":
        seen = (str(fields.get("path")), int(fields.get("step", -1)))
        return past._replace(checkpoints=past.checkpoints | {seen}, suspect=None)
    return past


def _launching(past: Past, event: Event) -> Past:
    fields, point = event.fields, event.fields.get("resume")
    begun = _attempt_started(past._replace(launching=None), event)
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


def _attempt_started(past: Past, event: Event) -> Past:
    if past.launching is not None:  # the gang began before this node's part of it
        return past._replace(open=True)
    return past._replace(
        attempt=int(event.fields.get("attempt", past.attempt + 1)),
        open=True,
        running=False,
        signalled=False,
        outcome=None,
        failure=None,
        restart_reason=None,
        exited=frozenset(),
        hung=frozenset(),
        hang=None,
        stopped_at=None,
        started=past.started or event.time,
    )


def _restarting(past: Past, fields: Mapping[str, Any]) -> Past:
    reason, given_up = StartReason.read(fields.get("reason"), StartReason.RESTART), _given_up(fields)
    if reason is StartReason.PORT:
        return past._replace(restart_reason=reason, port_retries=past.port_retries + 1)
    if reason is StartReason.NEVER_RAN:
        return past._replace(restart_reason=reason, never_ran=past.never_ran + 1)
    past = past._replace(never_ran=0)
    if reason in (StartReason.SMALLER, StartReason.REPLACED) and given_up:
        left_out = (*past.left_out, *given_up)
        return past._replace(restart_reason=reason, restarts=0, suspect=None, left_out=left_out)
    suspect = _place(fields.get("suspect"))
    return past._replace(restart_reason=StartReason.RESTART, restarts=past.restarts + 1, suspect=suspect)


def _given_up(fields: Mapping[str, Any]) -> tuple[Place, ...]:
    """The place that the gang goes on without, and the spares that did not answer."""
    suspect, skipped = _place(fields.get("suspect")), fields.get("skipped")
    names = skipped if isinstance(skipped, (list, tuple)) else ()
    spares = tuple(Place(name, None) for name in names if isinstance(name, str))
    return () if suspect is None else (suspect, *spares)


def _hang(past: Past, fields: Mapping[str, Any]) -> Past:
    rank = fields.get("rank")
    if not isinstance(rank, int):
        return past
    first = (rank, str(fields.get("detail") or ""))
    return past._replace(hung=past.hung | {rank}, hang=past.hang or first)


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
