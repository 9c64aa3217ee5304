"""Nodes that a run begins or continues without, wherever it is shown."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from support.values.histories import ALIVE, created, ended, event, failure, finished, fold, started
from torchdeck.contract.journal import Event
from torchdeck.runs.run_timeline import timeline
from torchdeck.runs.summary import summary_lines
from torchdeck.runs.view import RunView

ABSENT = {"name": "gpu3", "why": "10.0.0.3, port 22: no one answers"}
SAID = "node gpu3 is left out: 10.0.0.3, port 22: no one answers"
SPARE: dict[str, Any] = {
    "reason": "replaced",
    "suspect": {"node": "gpu1", "local_rank": None},
    "why": "node gpu1 has not answered for 41 s",
    "instead": "gpu5",
    "skipped": ["gpu4"],
}
GIVEN_UP = "node gpu1 has not answered for 41 s; spare node gpu4 does not answer; node gpu5 takes its place"


def seen(events: Sequence[Event], **fields: Any) -> RunView:
    first = created()
    first = dataclasses.replace(first, fields={**first.fields, **fields}) if fields else first
    return fold("r", [first], {"gpu0": events}, {}, ALIVE, 110.0)


@pytest.mark.parametrize("events", [[], [started()], [started(), ended(), finished()]])
def test_a_node_that_did_not_answer_is_named_as_long_as_the_run_is_shown(events: list[Event]) -> None:
    """In `runs show` and the window; and in the timeline."""
    view = seen(events, absent=[ABSENT])
    assert SAID in view.warnings
    assert any(SAID in line for line in summary_lines(view))
    first = created()
    first = dataclasses.replace(first, fields={**first.fields, "absent": [ABSENT]})
    assert timeline([("controller", first)])[0].text.endswith(SAID)
    assert seen(events).warnings == ()


def test_who_takes_the_place_of_a_lost_node_is_named() -> None:
    """While the next attempt is waited for, and of the attempt itself."""
    events = [
        started(1, world_size=2),
        ended(1, "failed", failure(1)),
        event("restarting", 104.0, attempt=1, delay=2.0, **SPARE),
    ]
    assert seen(events).why.endswith(f"without {GIVEN_UP}")
    again = started(2, 106.0, reason="replaced", world_size=2)
    assert seen([*events, again]).attempts[1].given_up == GIVEN_UP


def test_what_is_lost_before_the_first_attempt_is_named_with_it() -> None:
    """All of it; in the timeline each by itself."""
    lost = {**SPARE, "reason": "smaller", "instead": "", "skipped": [], "world_size": 1}
    lost = {**lost, "suspect": {"node": "gpu2", "local_rank": None}, "why": "node gpu2 is off"}
    events = [event("left_out", 100.6, **SPARE), event("left_out", 100.7, **lost), started()]
    assert seen(events).attempts[0].given_up == f"{GIVEN_UP}; node gpu2 is off"
    texts = [item.text for item in timeline([("gpu0", found) for found in events])]
    assert texts[:2] == [f"begins without {GIVEN_UP}", "begins without node gpu2 is off"]


@pytest.mark.parametrize(
    "odd", [{"skipped": "gpu4"}, {"skipped": [3, None]}, {"suspect": 3}, {"instead": 7, "why": None}]
)
def test_damaged_fields_raise_nothing(odd: dict[str, Any]) -> None:
    """A journal may hold anything."""
    seen([event("left_out", 100.6, **{**SPARE, **odd}), started()])
    seen([started()], absent=odd)
    seen([started()], absent=[odd, 3, None, {"name": 3}])
