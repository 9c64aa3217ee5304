"""When an alert is due, by values and for any history."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.values.alert_values import rules
from torchdeck.agent.alerts.decider import Alert, AlertDecider, Sent
from torchdeck.contract.journal import Event
from torchdeck.contract.plan.alert_plan import AlertEvent


def happened(name: str, time: float = 0.0, **fields: Any) -> Event:
    return Event(name, time, time, fields)


def hang(time: float, number: int, rank: int = 1) -> Event:
    detail = "rank 1 waits for rank 0\nsecond line"
    return happened("hang", time, attempt=1, rank=rank, ranks=[rank], detail=detail, examination=str(number))


def test_a_failed_run_is_reported_with_the_first_line_of_its_error() -> None:
    """As failed, and not as ended too; the rank is named."""
    decider = AlertDecider(rules())
    failure = {"rank": 1, "message": "\nValueError: boom\n  more"}
    assert decider.take(happened("attempt_ended", 1.0, attempt=1, first_failure=failure)) == []
    (alert,) = decider.take(happened("finished", 2.0, state="FAILED", why="rank 1 failed"))
    assert alert == Alert(AlertEvent.FAILED, "end", 2.0, "failed", "ValueError: boom (rank 1)")
    assert decider.state == "FAILED"


@pytest.mark.parametrize(
    ("state", "events", "event", "what"),
    [
        ("SUCCEEDED", ("ended", "failed"), "ended", "succeeded"),
        ("CANCELLED", ("ended", "failed"), "ended", "was stopped"),
        ("SUCCEEDED", ("failed",), None, ""),
        ("FAILED", ("ended",), "ended", "failed"),
        ("FAILED", ("failed",), "failed", "failed"),
        ("FAILED", ("hang",), None, ""),
    ],
)
def test_ends_are_reported_to_those_who_asked(
    state: str, events: tuple[str, ...], event: str | None, what: str
) -> None:
    """A failure is an end, too."""
    found = AlertDecider(rules(events=events)).take(happened("finished", 1.0, state=state, why="why"))
    assert [(alert.event.value, alert.what) for alert in found] == ([] if event is None else [(event, what)])


def test_a_run_that_is_given_up_is_lost_unless_its_ranks_had_ended() -> None:
    """As its controller has journaled it."""
    (alert,) = AlertDecider(rules()).take(happened("lost", 1.0, state="LOST", why="no answer"))
    assert (alert.event, alert.what, alert.error) == (AlertEvent.FAILED, "is lost", "no answer")
    (alert,) = AlertDecider(rules()).take(happened("lost", 1.0, state="SUCCEEDED", why="no answer"))
    assert (alert.event, alert.what) == (AlertEvent.ENDED, "succeeded")


def test_a_restart_after_a_failure_is_reported_and_one_for_a_port_is_not() -> None:
    """And the end of the run whatever was reported just before."""
    decider = AlertDecider(rules())
    decider.take(happened("attempt_ended", 1.0, first_failure={"rank": 0, "message": "boom"}))
    assert decider.take(happened("restarting", 1.0, attempt=1, reason="port")) == []
    (alert,) = decider.take(happened("restarting", 1.0, attempt=1, reason="restart"))
    assert (alert.event, alert.what, alert.error) == (
        AlertEvent.FAILED,
        "restarts after a failure",
        "boom (rank 0)",
    )
    assert decider.state == "RESTARTING"
    (end,) = decider.take(happened("finished", 2.0, state="FAILED"))
    assert end.what == "failed"


def test_hangs_are_limited_in_rate_and_counted() -> None:
    """What was held back is told with the next one."""
    decider = AlertDecider(rules(interval=100.0))
    assert [alert.what for alert in decider.take(hang(0.0, 1))] == ["hangs (rank 1)"]
    assert decider.take(hang(50.0, 2)) == []
    assert decider.take(hang(99.0, 3)) == []
    (alert,) = decider.take(hang(100.0, 4))
    assert (alert.held_back, alert.error) == (2, "rank 1 waits for rank 0")


def test_the_same_hang_read_again_is_not_reported_again() -> None:
    """Another agent reads the journal from its beginning, and knows what was sent."""
    first = AlertDecider(rules(interval=0.0))
    sent = [Sent(*alert[:3]) for event in (hang(0.0, 1), hang(1.0, 2)) for alert in first.take(event)]
    again = AlertDecider(rules(interval=0.0))
    again.know(sent)
    found = [alert.key for event in (hang(0.0, 1), hang(1.0, 2), hang(2.0, 3)) for alert in again.take(event)]
    assert found == ["hang:1:3"]


def test_a_loss_that_is_not_finite_is_reported_once_until_it_is_finite() -> None:
    """NaN and infinity; other metrics may be anything."""
    decider = AlertDecider(rules(interval=0.0))
    values = [1.0, math.nan, math.nan, math.inf, 2.0, -math.inf]
    rows = [decider.row("loss", step, value, 1.0 * step) for step, value in enumerate(values)]
    found = [alert.what for alerts in rows for alert in alerts]
    assert found == ["reports loss NaN at step 1", "reports loss -infinity at step 5"]
    assert decider.row("lr", 1, math.nan, 1.0) == []
    assert decider.row("validation_loss", 1, math.nan, 6.0)


def evaluate(decider: AlertDecider, values: list[float], first_step: int = 0) -> list[int]:
    """Indices of the evaluations that lead to an alert for no new best."""
    return [
        index
        for index, value in enumerate(values)
        for alert in decider.row("validation_loss", first_step + index, value, 1.0 * index, best=True)
        if alert.event is AlertEvent.NO_BEST
    ]


def test_no_new_best_is_reported_once_for_each_best() -> None:
    """After the third evaluation without one; a repeated step is no evaluation."""
    decider = AlertDecider(rules(interval=0.0, no_best=3))
    assert evaluate(decider, [3.0, 2.0, 2.5, 2.0, 2.1, 2.2, 1.9, 2.0, math.nan, 2.0]) == [4, 9]
    assert evaluate(decider, [9.0, 9.0, 9.0, 9.0]) == []


def test_highest_can_be_best() -> None:
    """As checkpoint.best_is says."""
    assert evaluate(AlertDecider(rules(interval=0.0, no_best=2, lowest=False)), [0.5, 0.6, 0.4, 0.5]) == [3]


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=60), st.integers(1, 5))
def test_no_new_best_for_any_values(values: list[float], patience: int) -> None:
    """Exactly at the N-th evaluation after each best, as a plain search finds it."""
    best, best_at, expected = math.inf, -1, []
    for index, value in enumerate(values):
        if math.isfinite(value) and value < best:
            best, best_at = value, index
        elif index - best_at == patience:
            expected.append(index)
    assert evaluate(AlertDecider(rules(interval=0.0, no_best=patience)), values) == expected


@given(
    st.lists(st.tuples(st.floats(0, 100), st.integers(0, 9)), max_size=40),
    st.floats(0, 200),
    st.integers(0, 40),
)
def test_any_history_of_hangs_keeps_its_distance_and_repeats_nothing(
    steps: list[tuple[float, int]], interval: float, death: int
) -> None:
    """Also if the agent is replaced at any time, and its successor reads all again."""
    events, time = [], 0.0
    for pause, number in steps:
        time += pause
        events.append(hang(time, number))
    first = AlertDecider(rules(interval=interval))
    sent = [alert for event in events[:death] for alert in first.take(event)]
    second = AlertDecider(rules(interval=interval))
    second.know(Sent(*alert[:3]) for alert in sent)
    sent += [alert for event in events for alert in second.take(event)]
    assert len({alert.key for alert in sent}) == len(sent)
    times = [alert.time for alert in sent]
    assert all(later - earlier >= interval for earlier, later in pairwise(times))


def test_the_disk_is_reported_at_each_time_it_gets_low() -> None:
    """With a margin, so that it does not flicker; an unknown amount is none."""
    decider = AlertDecider(rules(interval=0.0, free_bytes=1000))
    free = [-1, 5000, 999, 998, 1100, 900, 1200, 100]
    assert [time for time, bytes_ in enumerate(free) if decider.disk(bytes_, time)] == [2, 7]
    assert AlertDecider(rules(free_bytes=0)).disk(0, 1.0) == []
    (alert,) = AlertDecider(rules()).take(happened("stopping", 1.0, why="disk", detail="1 MiB is free"))
    assert (alert.event, alert.error) == (AlertEvent.DISK, "1 MiB is free")
    assert AlertDecider(rules()).take(happened("stopping", 1.0, why="user")) == []


def test_waiting_for_devices_is_reported_once_and_not_after_it_has_ended() -> None:
    """From the first event on, whatever follows."""
    decider = AlertDecider(rules(queued=100.0))
    decider.take(happened("queued", 10.0))
    decider.take(happened("queued", 60.0))
    assert decider.state == "QUEUED"
    assert decider.tick(109.0) == []
    assert [alert.what for alert in decider.tick(110.0)] == ["has waited 2 min for devices"]
    assert decider.tick(500.0) == []
    other = AlertDecider(rules(queued=100.0))
    other.take(happened("queued", 10.0))
    other.take(happened("leased", 20.0))
    assert other.tick(1000.0) == []


def train(decider: AlertDecider, times: list[tuple[float, int]]) -> list[tuple[float, str]]:
    found: list[tuple[float, str]] = []
    for time, step in times:
        found += [(time, alert.what) for alert in decider.progress(step, 1000, time)]
    return found


def test_a_run_that_gets_slower_is_late() -> None:
    """After a minute 1,000 steps were expected to take 1,000 s."""
    decider = AlertDecider(rules())
    assert train(decider, [(1.0, 1), (30.0, 30), (61.0, 61)]) == []
    assert decider.expected is not None
    assert decider.expected.end == pytest.approx(1000.0)
    assert train(decider, [(500.0, 400), (760.0, 500)]) == [(760.0, "takes 1.5 times as long as expected")]
    assert train(decider, [(5000.0, 501)]) == []


def test_a_steady_run_is_never_late_and_an_unknown_total_says_nothing() -> None:
    """Whatever the pace."""
    for pace in (0.1, 1.0, 7.0):
        steady = [(step / pace, step) for step in range(1, 1001)]
        assert train(AlertDecider(rules(late_factor=1.01)), steady) == []
    assert AlertDecider(rules()).progress(5, None, 1.0) == []


def test_a_given_end_is_reported_as_soon_as_it_will_be_missed() -> None:
    """And at the latest when it has come."""
    decider = AlertDecider(rules(end_by=900.0))
    assert train(decider, [(1.0, 1), (61.0, 61)]) == [
        (61.0, "will end 2 min after the time it should end by")
    ]
    assert decider.tick(901.0) == []
    silent = AlertDecider(rules(end_by=900.0))
    assert silent.tick(900.0) == []
    assert [alert.what for alert in silent.tick(901.0)] == ["should have ended by now"]
    ended = AlertDecider(rules(end_by=900.0))
    ended.take(happened("finished", 1.0, state="SUCCEEDED"))
    assert ended.tick(901.0) == []


def test_another_agent_knows_the_end_that_was_expected() -> None:
    """By its journal."""
    first = AlertDecider(rules())
    train(first, [(1.0, 1), (61.0, 61)])
    assert first.expected is not None
    again = AlertDecider(rules())
    again.take(happened("expected_end", 61.0, **first.expected._asdict()))
    assert train(again, [(700.0, 400), (760.0, 500)])[0][1].startswith("takes 1.8 times")


def test_what_is_not_asked_for_is_not_reported() -> None:
    """An empty list of events is none."""
    decider = AlertDecider(rules(events=()))
    assert decider.take(hang(1.0, 1)) == []
    assert decider.row("loss", 1, math.nan, 1.0) == []


def test_a_time_to_end_by_is_reported_once_the_interval_is_over() -> None:
    """Another alert of lateness just before holds it back, and does not replace it."""
    decider = AlertDecider(rules(end_by=1000.0))
    decider.know([Sent(AlertEvent.LATE, "late", 900.0)])
    assert [time for time in range(1001, 1700) if decider.tick(float(time))] == [1500]


def test_space_that_stays_low_is_reported_once_over_a_restart_of_the_agent() -> None:
    """And again after there was enough."""
    decider = AlertDecider(rules())
    decider.know([Sent(AlertEvent.DISK, "disk:0", 0.0)])
    assert decider.disk(2**29, 5000.0) == []
    decider.disk(2**31, 6000.0)
    assert [alert.event for alert in decider.disk(2**29, 7000.0)] == [AlertEvent.DISK]
