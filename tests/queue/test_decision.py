"""Decisions with the states of runs: after another one, estimates, paused entries."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.values.golden_values import QUEUE
from torchdeck.queue.decision import RunNow, Situation, decide, expected_length, wanted_runs
from torchdeck.queue.entry import AfterRun, Condition, Entry, Stage
from torchdeck.queue.scheduling.ask import Ask, Gpu, Machine, Place
from torchdeck.queue.state import Queue

RUNNING, LATER = QUEUE.entries
HERE = Machine("localhost", (Gpu(0),))
ASK = Ask(("localhost",), 1, 1)
RUN = "20261123T191246Z-other-bb7c16"


def waiting(*after: AfterRun) -> Entry:
    return replace(LATER, paused=False, note="", after=after)


def why(queue: Queue, run: RunNow | None = None) -> str:
    """Return why the entry q3 waits; empty if it starts."""
    found = decide(Situation(queue, {"q3": ASK}, [HERE], (), {RUN: run, RUNNING.run: None}, {}), 0.0)
    return "" if "q3" in found.starts else found.waits["q3"].why


def ended(outcome: str) -> Entry:
    return replace(RUNNING, stage=Stage.ENDED, outcome=outcome)


@pytest.mark.parametrize(
    ("first", "condition", "expected"),
    [
        (RUNNING, Condition.ENDED, "it waits until q1 has ended"),
        (RUNNING, Condition.SUCCEEDED, "it waits until q1 has succeeded"),
        (ended("FAILED"), Condition.ENDED, ""),
        (ended("SUCCEEDED"), Condition.SUCCEEDED, ""),
        (ended("FAILED"), Condition.SUCCEEDED, "q1 had to succeed first, and it is FAILED"),
    ],
)
def test_after_another_entry(first: Entry, condition: Condition, expected: str) -> None:
    assert why(replace(QUEUE, entries=(first, waiting(AfterRun("q1", condition))))) == expected


def test_after_a_run_that_is_not_in_the_queue() -> None:
    queue = replace(QUEUE, entries=(waiting(AfterRun(RUN)),))
    assert list(wanted_runs(queue)) == [RUN]
    assert why(queue, RunNow("RUNNING", is_over=False)) == f"it waits until {RUN} has ended"
    assert why(queue, RunNow("FAILED", is_over=True)) == ""
    assert why(queue) == f"it is to start after {RUN}, which does not exist any more"


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (RunNow("RUNNING", is_over=False), "it waits until q1 has succeeded"),
        (RunNow("SUCCEEDED", is_over=True), ""),
        (None, "q1 had to succeed first, and it is FAILED"),
    ],
)
def test_after_an_entry_whose_run_was_resumed(run: RunNow | None, expected: str) -> None:
    queue = replace(
        QUEUE,
        entries=(replace(ended("FAILED"), run=RUN), waiting(AfterRun("q1", Condition.SUCCEEDED))),
    )
    assert list(wanted_runs(queue)) == [RUN]
    assert why(queue, run) == expected


def test_a_paused_entry_says_why() -> None:
    assert why(replace(QUEUE, entries=(LATER,))) == "it is paused: it could not start"


def test_lengths_of_earlier_entries_are_the_estimate() -> None:
    before = [
        replace(RUNNING, id=f"q{number}", stage=Stage.ENDED, outcome=outcome, begun=0.0001, ended=length)
        for number, (outcome, length) in enumerate(
            [("SUCCEEDED", 10.0), ("SUCCEEDED", 30.0), ("SUCCEEDED", 20.0), ("FAILED", 90.0)], start=10
        )
    ]
    again = replace(RUNNING, id="q20", stage=Stage.WAITING)
    assert expected_length(Queue((*before, again)), again) == pytest.approx(20.0, abs=0.1)
    assert expected_length(Queue((again,)), again) == again.expected


def test_the_start_behind_a_running_entry_is_estimated() -> None:
    here = replace(RUNNING, places=(Place("localhost", (0,)),), limit=500.0, begun=100.0)
    queue = replace(QUEUE, entries=(here, waiting()))
    run = RunNow("RUNNING", is_over=False, started=200.0)
    found = decide(Situation(queue, {"q3": ASK}, [HERE], (), {here.run: run}, {}), 300.0)
    assert found.waits["q3"].estimate == 200.0 + 3600.0
    assert found.waits["q3"].certain == 700.0
