"""The fold of the agent's own journal."""

from __future__ import annotations

from typing import Any

from torchdeck.agent.past import Past, fold_past
from torchdeck.rundir.journal import Event

HISTORY: list[tuple[str, dict[str, Any]]] = [
    ("agent_started", {}),
    ("attempt_started", {"attempt": 1}),
    ("running", {"attempt": 1}),
    ("request", {"id": "r0", "kind": "stop"}),
    ("checkpoint", {"path": "/c/step_1", "step": 1}),
    ("hang", {"rank": 1}),
    ("rank_exited", {"rank": 0, "code": 1}),
    (
        "attempt_ended",
        {"attempt": 1, "outcome": "failed", "first_failure": {"rank": 0, "message": "m", "code": 1}},
    ),
    ("restarting", {"attempt": 1, "reason": "restart"}),
    ("attempt_started", {"attempt": 2}),
    ("stopping", {"kind": "graceful", "why": "disk", "detail": "d"}),
    ("stopping", {"kind": "now", "why": "disk", "detail": "d"}),
    ("signalled", {"signal": "SIGTERM"}),
    ("attempt_ended", {"attempt": 2, "outcome": "stopped", "first_failure": None}),
    ("finished", {"state": "FAILED"}),
]


def fold(count: int, life: int = 0) -> Past:
    return fold_past(
        [Event(name, 100.0 + at, 0.0, fields) for at, (name, fields) in enumerate(HISTORY[:count])], life
    )


def test_an_open_attempt_is_known_with_what_was_journaled_of_it() -> None:
    """Open, running, whose exit and hang are told already."""
    past = fold(7)
    assert (past.attempt, past.open, past.running, past.exited, past.hung) == (
        1,
        True,
        True,
        frozenset({0}),
        frozenset({1}),
    )
    assert past.started == 101.0


def test_a_restart_that_is_due_is_known() -> None:
    """Counted, with its reason; the failure is there to be told."""
    past = fold(9)
    assert (past.open, past.outcome, past.restart_reason, past.restarts) == (False, "failed", "restart", 1)
    assert past.failure is not None
    assert past.failure.message == "m"


def test_an_attempt_that_could_not_be_launched_has_had_its_number() -> None:
    """The next one has a folder of its own."""
    events = [*HISTORY[:9], ("attempt_ended", {"attempt": 2, "outcome": "failed"})]
    past = fold_past([Event(name, 1.0, 0.0, fields) for name, fields in events], 0)
    assert (past.attempt, past.open) == (2, False)


def test_a_new_attempt_begins_clean() -> None:
    """Exits and hangs of the one before are not its own; requests and checkpoints stay taken."""
    past = fold(10)
    assert (past.exited, past.hung, past.running, past.restart_reason) == (
        frozenset(),
        frozenset(),
        False,
        None,
    )
    assert past.requests == {"r0"}
    assert past.checkpoints == {("/c/step_1", 1)}


def test_a_stop_gets_more_urgent_and_keeps_its_reason() -> None:
    """The later kind, the first why; and when we first signalled."""
    past = fold(13)
    assert past.stop == ("now", "disk", "d")
    assert (past.signalled, past.stopped_at) == (True, 112.0)


def test_a_finished_run_is_finished_unless_it_lives_again() -> None:
    """Life 0: one finish is the end. Life 1: all begins anew, attempts counted on."""
    assert fold(15).finishes == 1
    again = fold(15, life=1)
    assert (again.finishes, again.attempt, again.open, again.stop, again.restarts) == (1, 2, False, None, 0)
    assert again.requests == {"r0"}


def test_foreign_and_damaged_events_are_survived() -> None:
    """Fields that are missing or of another type break nothing."""
    events = [Event(name, 0.0, 0.0, {}) for name, _ in HISTORY] + [
        Event("from_the_future", 0.0, 0.0, {"x": 1})
    ]
    assert fold_past(events, 0).finishes == 1
