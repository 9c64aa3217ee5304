"""The fold of the agent's own journal."""

from __future__ import annotations

from typing import Any

from torchdeck.agent.gang.events import ResumePoint
from torchdeck.agent.gang.recovered_state import Launching, RecoveredState, replay
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


LEADER: list[tuple[str, dict[str, Any]]] = [
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


def folded(told: list[tuple[str, dict[str, Any]]], session: int = 0) -> RecoveredState:
    return replay([Event(name, 0.0, 0.0, fields) for name, fields in told], session)


def test_a_lead_knows_how_the_attempt_was_begun_before_its_own_part_was() -> None:
    """Until the attempt is judged; its own part is open once its torchrun was up."""
    recovered = folded(LEADER[:3])
    assert (recovered.attempt, recovered.open, recovered.gang_open) == (1, False, True)
    assert recovered.launching == Launching(
        1, StartReason.FIRST, 7, ResumePoint("own", "step_00000020", 20), (Place("c", None),)
    )
    recovered = folded(LEADER[:5])
    assert (recovered.open, recovered.running) == (True, True), "another node's ranks may have trained first"
    recovered = folded(LEADER)
    assert (recovered.launching, recovered.gang_open, recovered.outcome) == (None, False, "failed")


def test_a_follower_begins_a_new_life_though_it_missed_the_end_of_the_last() -> None:
    """It was cut off when the run ended: the number of the life that it is started in says so."""
    recovered = folded(FOLLOWER[:2], session=1)
    assert (recovered.attempt, recovered.open, recovered.finishes) == (3, False, 1)
    again = [
        *FOLLOWER[:2],
        ("agent_started", {"part": "follower", "life": 1}),
        ("attempt_started", {"attempt": 4}),
    ]
    recovered = folded(again, session=1)
    assert (recovered.attempt, recovered.open, recovered.finishes) == (4, True, 1)
    assert folded(FOLLOWER).finishes == 1
    assert not folded(FOLLOWER[:3]).open


def fold(count: int, session: int = 0) -> RecoveredState:
    return replay(
        [Event(name, 100.0 + at, 0.0, fields) for at, (name, fields) in enumerate(HISTORY[:count])], session
    )


def test_an_open_attempt_is_known_with_what_was_journaled_of_it() -> None:
    """Open, running, whose exit and hang are told already."""
    recovered = fold(7)
    assert (recovered.attempt, recovered.open, recovered.running, recovered.exited, recovered.hung) == (
        1,
        True,
        True,
        frozenset({0}),
        frozenset({1}),
    )
    assert recovered.started == 101.0


def test_a_restart_that_is_due_is_known() -> None:
    """Counted, with its reason; the failure is there to be told."""
    recovered = fold(9)
    assert (recovered.open, recovered.outcome, recovered.restart_reason, recovered.restarts) == (
        False,
        "failed",
        "restart",
        1,
    )
    assert recovered.failure is not None
    assert recovered.failure.message == "m"


def test_an_attempt_that_could_not_be_launched_has_had_its_number() -> None:
    """The next one has a folder of its own."""
    events = [*HISTORY[:9], ("attempt_ended", {"attempt": 2, "outcome": "failed"})]
    recovered = replay([Event(name, 1.0, 0.0, fields) for name, fields in events], 0)
    assert (recovered.attempt, recovered.open) == (2, False)


def test_a_new_attempt_begins_clean() -> None:
    """Exits and hangs of the one before are not its own; requests and checkpoints stay taken."""
    recovered = fold(10)
    assert (recovered.exited, recovered.hung, recovered.running, recovered.restart_reason) == (
        frozenset(),
        frozenset(),
        False,
        None,
    )
    assert recovered.requests == {"r0"}
    assert recovered.checkpoints == {("/c/step_1", 1)}


def test_a_stop_gets_more_urgent_and_keeps_its_reason() -> None:
    """The later kind, the first why; and when we first signalled."""
    recovered = fold(13)
    assert recovered.stop == ("now", "disk", "d")
    assert (recovered.signalled, recovered.stopped_at) == (True, 112.0)


def test_a_finished_run_is_finished_unless_it_lives_again() -> None:
    """Life 0: one finish is the end. Life 1: all starts over, attempts counted on."""
    assert fold(15).finishes == 1
    again = fold(15, session=1)
    assert (again.finishes, again.attempt, again.open, again.stop, again.restarts) == (1, 2, False, None, 0)
    assert again.requests == {"r0"}


def test_foreign_and_damaged_events_are_survived() -> None:
    """Fields that are missing or of another type break nothing."""
    events = [Event(name, 0.0, 0.0, {}) for name, _ in HISTORY] + [
        Event("from_the_future", 0.0, 0.0, {"x": 1})
    ]
    assert replay(events, 0).finishes == 1


def test_a_follower_that_only_gave_up_its_lead_takes_part_in_the_same_life_again() -> None:
    """Its agent departed; another one that is started for the same life has work to do."""
    departed = Event("node_finished", 9.0, 0.0, {"why": "silence", "attempt": 1, "may_return": True})
    for_good = Event("node_finished", 9.0, 0.0, {"why": "over", "attempt": 1})
    begun = [Event("agent_started", 1.0, 0.0, {"part": "follower", "life": 0})]
    assert replay([*begun, departed], 0).finishes == 0
    assert replay([*begun, for_good], 0).finishes == 1


def ended(
    step: int, *, saved: bool = False, traceback: str | None = None
) -> list[tuple[str, dict[str, Any]]]:
    first = {"rank": 0, "message": "m", "code": 1, "traceback": traceback}
    fields = {"attempt": 1, "outcome": "failed", "first_failure": first, "step": step, "saved": saved}
    return [("attempt_started", {"attempt": 1}), ("attempt_ended", fields)]


RESTART: list[tuple[str, dict[str, Any]]] = [("restarting", {"attempt": 1, "reason": "restart"})]


def test_attempts_that_brought_nothing_are_counted_from_their_rows() -> None:
    """A new step or checkpoint ends the count; the attempt that is not judged yet is not in it."""
    lives = [*ended(8), *RESTART, *ended(8), *RESTART, *ended(5, traceback="T"), *RESTART]
    recovered = folded(lives)
    assert (recovered.fruitless, recovered.reached, recovered.traceback) == (2, 8, "T")
    recovered = folded([*lives, *ended(7, traceback="U")])
    assert (recovered.fruitless, recovered.reached, recovered.traceback, recovered.step) == (2, 8, "T", 7)
    assert folded([*lives, *ended(9), *RESTART]).fruitless == 0
    assert folded([*lives, *ended(8, saved=True), *RESTART]).fruitless == 0
    saved = [*lives, ("attempt_started", {}), ("checkpoint", {"path": "/c", "step": 8})]
    assert folded(saved).saved
    assert not folded([*lives, ("attempt_started", {})]).saved
    port: list[tuple[str, dict[str, Any]]] = [("restarting", {"attempt": 1, "reason": "port"})]
    assert folded([*lives, *ended(0), *port]).fruitless == 2
    smaller = {"attempt": 1, "reason": "smaller", "suspect": {"node": "b", "local_rank": None}}
    assert folded([*lives, ("restarting", smaller)]).fruitless == 0


def test_a_script_that_saves_on_stop_is_known_from_its_rows() -> None:
    """And that it was asked to; another attempt is not."""
    begun: list[tuple[str, dict[str, Any]]] = [
        ("attempt_started", {"attempt": 1}),
        ("saves_on_stop", {"attempt": 1, "saves": True}),
    ]
    stop = ("stopping", {"kind": "graceful", "why": "user", "detail": ""})
    over = ("saves_on_stop", {"attempt": 1, "saves": False})
    assert folded(begun).saves_on_stop
    recovered = folded([*begun, stop, over])
    assert (recovered.saves_on_stop, recovered.asked_to_save) == (False, True)
    assert not folded([*begun, over, stop]).asked_to_save
    assert not folded([*begun, *ended(1)]).saves_on_stop
