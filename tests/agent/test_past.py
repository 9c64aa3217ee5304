"""The fold of the agent's own journal."""

from __future__ import annotations

from typing import Any

from torchdeck.agent.gang.events import ResumePoint
from torchdeck.agent.gang.past import Launching, Past, fold_past
from torchdeck.contract.journal import Event
from torchdeck.contract.plan.elastic import Place
from torchdeck.contract.run_states import StartReason

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


LEAD: list[tuple[str, dict[str, Any]]] = [
    ("agent_started", {"part": "lead", "life": 0}),
    ("listening", {"address": "a", "port": 5}),
    (
        "launching",
        {
            "attempt": 1,
            "reason": "first",
            "port": 7,
            "resume": {"source": "own", "name": "step_00000020", "step": 20},
            "left_out": [{"node": "c", "local_rank": None}],
        },
    ),
    ("running", {"attempt": 1}),
    ("attempt_started", {"attempt": 1}),
    ("attempt_ended", {"attempt": 1, "outcome": "failed", "first_failure": None}),
]
FOLLOWER: list[tuple[str, dict[str, Any]]] = [
    ("agent_started", {"part": "follower", "life": 0}),
    ("attempt_started", {"attempt": 3}),
    ("attempt_over", {"attempt": 3, "outcome": "failed"}),
    ("node_finished", {"why": "over", "attempt": 3}),
]


def folded(told: list[tuple[str, dict[str, Any]]], life: int = 0) -> Past:
    return fold_past([Event(name, 0.0, 0.0, fields) for name, fields in told], life)


def test_a_lead_knows_how_the_attempt_was_begun_before_its_own_part_was() -> None:
    """Until the attempt is judged; its own part is open once its torchrun was up."""
    past = folded(LEAD[:3])
    assert (past.attempt, past.open, past.gang_open) == (1, False, True)
    assert past.launching == Launching(
        1, StartReason.FIRST, 7, ResumePoint("own", "step_00000020", 20), (Place("c", None),)
    )
    past = folded(LEAD[:5])
    assert (past.open, past.running) == (True, True), "another node's ranks may have trained first"
    past = folded(LEAD)
    assert (past.launching, past.gang_open, past.outcome) == (None, False, "failed")


def test_a_follower_begins_a_new_life_though_it_missed_the_end_of_the_last() -> None:
    """It was cut off when the run ended: the number of the life that it is started in says so."""
    past = folded(FOLLOWER[:2], life=1)
    assert (past.attempt, past.open, past.finishes) == (3, False, 1)
    again = [
        *FOLLOWER[:2],
        ("agent_started", {"part": "follower", "life": 1}),
        ("attempt_started", {"attempt": 4}),
    ]
    past = folded(again, life=1)
    assert (past.attempt, past.open, past.finishes) == (4, True, 1)
    assert folded(FOLLOWER).finishes == 1
    assert not folded(FOLLOWER[:3]).open


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


def test_a_follower_that_only_gave_up_its_lead_takes_part_in_the_same_life_again() -> None:
    """Its agent departed; another one that is started for the same life has work to do."""
    departed = Event("node_finished", 9.0, 0.0, {"why": "silence", "attempt": 1, "may_return": True})
    for_good = Event("node_finished", 9.0, 0.0, {"why": "over", "attempt": 1})
    begun = [Event("agent_started", 1.0, 0.0, {"part": "follower", "life": 0})]
    assert fold_past([*begun, departed], 0).finishes == 0
    assert fold_past([*begun, for_good], 0).finishes == 1
