"""Alerts and their outcomes, from journals in any order."""

from __future__ import annotations

from itertools import permutations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from torchdeck.contract.journal import Event
from torchdeck.runs.replay.alerts_seen import AlertsSeen


def event(name: str, time: float, **fields: Any) -> Event:
    return Event(name, time, time, fields)


ALERT = event("alert", 1.0, alert="failed", key="end", title="tiny failed", targets=["slack", "email"])
SENT = event("alert_sent", 2.0, key="end", target="slack", tries=1)
FAILED = event("alert_failed", 3.0, key="end", target="email", tries=4, why="HTTP 500")


def test_outcomes_are_matched_to_their_alert() -> None:
    """Whichever journal is read first."""
    for order in permutations((ALERT, SENT, FAILED, event("hang", 1.0, key="end"))):
        seen = AlertsSeen()
        for each in order:
            seen.take(each)
        (alert,) = seen.alerts
        assert alert.sentence == "tiny failed: sent to slack; email failed after 4 tries: HTTP 500"
        assert alert.has_failed


def test_an_alert_of_a_resumed_run_has_outcomes_of_its_own() -> None:
    """The second end is pending while the first is known."""
    seen = AlertsSeen()
    for each in (ALERT, SENT, FAILED, event("alert", 9.0, **ALERT.fields)):
        seen.take(each)
    first, second = seen.alerts
    assert [each.state for each in first.deliveries] == ["sent", "failed"]
    assert second.sentence == "tiny failed: no outcome of slack, email yet"


def test_an_alert_that_no_process_could_deliver_says_so() -> None:
    """As the agent has journaled it."""
    seen = AlertsSeen()
    seen.take(event("alert", 1.0, **{**ALERT.fields, "targets": ["slack"], "why": "no memory\x1b[2J"}))
    assert seen.alerts[0].sentence.startswith("tiny failed: slack failed: no memory")
    assert "\x1b" not in seen.alerts[0].sentence


FIELDS = st.dictionaries(
    st.sampled_from(["alert", "key", "title", "targets", "target", "why", "tries", "happened"]),
    st.none() | st.text(max_size=3) | st.integers() | st.lists(st.text(max_size=3), max_size=2),
)


@given(st.lists(st.tuples(st.sampled_from(["alert", "alert_sent", "alert_failed"]), FIELDS), max_size=10))
def test_no_journal_of_a_node_makes_it_raise(events: list[tuple[str, dict[str, Any]]]) -> None:
    """Nodes write anything."""
    seen = AlertsSeen()
    for name, fields in events:
        seen.take(event(name, 1.0, **{"key": "", **fields}))
    assert all(isinstance(each.sentence, str) for each in seen.alerts)
