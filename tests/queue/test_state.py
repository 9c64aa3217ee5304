"""Order, moves and old entries of the queue."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.values.golden_values import QUEUE
from torchdeck.queue.entry import AfterRun, Condition, Entry, Stage
from torchdeck.queue.state import KEPT_ENDED, Queue, QueueError

LATER = QUEUE.find("q3")


def _entry(priority: int, name: str, position: int) -> Entry:
    return replace(LATER, id=name, position=position, priority=priority, after=())


def queue_of(*priorities: int) -> Queue:
    queue = Queue()
    for priority in priorities:
        queue = queue.with_new(partial(_entry, priority))
    return queue


def order(queue: Queue) -> list[str]:
    return [entry.id for entry in queue.waiting()]


def test_order_is_by_priority_then_arrival() -> None:
    assert order(queue_of(0, 1, 0, 1)) == ["q2", "q4", "q1", "q3"]


def test_a_moved_entry_gets_the_priority_of_the_one_behind_it() -> None:
    queue = queue_of(0, 1, 0, 1)
    assert order(queue.moved("q3", "q4")) == ["q2", "q3", "q4", "q1"]
    assert order(queue.moved("q2", "q3")) == ["q4", "q1", "q2", "q3"]
    assert order(queue.moved("2", None)) == ["q4", "q2", "q1", "q3"]


@given(st.lists(st.integers(0, 2), min_size=2, max_size=8), st.data())
def test_a_move_leaves_the_order_of_all_others(priorities: list[int], data: st.DataObject) -> None:
    queue = queue_of(*priorities)
    moved, target = data.draw(st.sampled_from(order(queue))), data.draw(st.sampled_from(order(queue)))
    after = order(queue.moved(moved, target))
    assert [name for name in after if name != moved] == [name for name in order(queue) if name != moved]
    if moved != target:
        assert after.index(moved) + 1 == after.index(target)


def test_an_entry_that_lost_its_devices_has_its_place_again() -> None:
    first, second, third = queue_of(0, 0, 0).entries
    queue = Queue(
        (replace(second, stage=Stage.RUNNING), replace(first, position=9), replace(third, position=8))
    )
    moved = queue.moved("q1", "q3")
    assert order(moved.with_entry(moved.find("q2").waiting_again(""))) == ["q2", "q1", "q3"]


def test_what_runs_is_not_moved() -> None:
    with pytest.raises(QueueError, match="q1 does not wait any more: it runs as") as refused:
        QUEUE.moved("q1", "q3")
    assert "torchdeck runs stop" in refused.value.fix


def test_old_ended_entries_go_unless_another_one_names_them() -> None:
    queue = queue_of(*([0] * (KEPT_ENDED + 3)))
    ended: list[Entry] = [
        replace(entry, stage=Stage.ENDED, ended=float(entry.number)) for entry in queue.entries
    ]
    waiting = replace(LATER, id="q900", after=(AfterRun("q2"),))
    kept = {entry.id for entry in replace(queue, entries=(*ended, waiting)).pruned().entries}
    assert len(kept) == KEPT_ENDED + 2
    assert {"q2", "q900"} <= kept
    assert not {"q1", "q3"} & kept


RUN = "20261123T191246Z-golden-bb7c16"


@pytest.mark.parametrize(
    ("outcome", "condition", "expected"),
    [
        ("SUCCEEDED", Condition.SUCCEEDED, ()),
        ("FAILED", Condition.ENDED, ()),
        ("FAILED", Condition.SUCCEEDED, (AfterRun(RUN, Condition.SUCCEEDED),)),
    ],
)
def test_a_removed_entry_that_has_ended_breaks_no_condition(
    outcome: str, condition: Condition, expected: tuple[AfterRun, ...]
) -> None:
    first = replace(LATER, id="q1", stage=Stage.ENDED, outcome=outcome, run=RUN, after=())
    waiting = replace(LATER, after=(AfterRun("q1", condition),))
    (left,) = Queue((first, waiting)).without(["q1"]).entries
    assert left.after == expected


def test_an_entry_for_which_another_one_waits_is_not_removed_alone() -> None:
    first, second = queue_of(0, 0).entries
    queue = Queue((first, replace(second, after=(AfterRun("q1"),))))
    with pytest.raises(QueueError, match="q2 is to start after q1"):
        queue.without(["q1"])
    assert queue.without(["q1", "q2"]).entries == ()


def test_an_entry_must_not_wait_for_itself() -> None:
    first, second, third = queue_of(0, 0, 0).entries
    second = replace(second, after=(AfterRun("q1"), AfterRun(RUN)))
    third = replace(third, after=(AfterRun("q2", Condition.SUCCEEDED), AfterRun("q1")))
    queue = Queue((first, second, third))
    queue.must_not_circle(third)
    for run in ("q1", "q2", "q3"):
        with pytest.raises(QueueError, match="q1 would wait for itself"):
            queue.must_not_circle(replace(first, after=(AfterRun(run),)))
