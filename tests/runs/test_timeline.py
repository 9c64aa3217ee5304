"""The journals as a list that a person reads."""

from pathlib import Path

import pytest

from support.values.histories import (
    agent_started,
    controller_journal,
    ended,
    event,
    failure,
    finished,
    started,
)
from support.values.made_runs import line, make_run
from torchdeck.runs.run_timeline import TimelineReader, timeline


def test_both_journals_are_one_list_in_the_order_of_time() -> None:
    events = [("controller", item) for item in controller_journal()]
    events += [("localhost", item) for item in (agent_started(), started(), finished())]
    found = timeline(events)
    assert [item.event for item in found] == [
        "created",
        "controller_started",
        "agent_started",
        "attempt_started",
        "finished",
    ]
    assert [item.attempt for item in found] == [0, 0, 0, 1, 1]
    assert found[0].text == "created for 2 ranks: recipe byte-gpt"
    assert found[-1].text == "succeeded: all ranks finished"


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        (
            event("strangers", count=12, address="10.0.0.9", why="it does not hold the key of this run"),
            "problem",
            "12 or more connections to the run's store were refused, one from 10.0.0.9: it does not hold",
        ),
        (ended(outcome="failed", first=failure()), "state", "rank 1 failed with exit code 1, ValueError: x"),
        (event("stopping", kind="graceful", why="disk"), "state", "the disk is nearly full"),
        (
            event("request", id="1", kind="stop_now", origin="window"),
            "request",
            "stop now asked for by the window",
        ),
        (event("request", id="1", kind="stop"), "request", "stop taken by the agent"),
        (
            event("checkpoint", step=1200, size=2048, seconds=0.5),
            "checkpoint",
            "step 1,200 is complete, 2.0 KiB",
        ),
        (
            event("hang", rank=3, phase="training", step=7, still=40),
            "problem",
            "rank 3 has made no progress for 40 s",
        ),
        (event("rank_exited", attempt=1, rank=1, signal=9), "detail", "rank 1 was ended by SIGKILL"),
        (
            event("node_silent", node="b", seconds=15.2, grace=120.0),
            "problem",
            "node b has been silent to the other nodes for 15 s (given up after 120 s)",
        ),
        (
            event("agent_killed", node="b", seconds=121.3, shim=True),
            "problem",
            "the agent and its shim on node b gave no sign of life for 121 s",
        ),
        (event("node_lost", node="b", seconds=120.1), "problem", "after launch.node_grace it was given up"),
        (event("node_back", node="b", seconds=22.4), "state", "answers the others again after 22 s"),
        (event("something_new", x=1), "detail", "something new"),
        (started(2, resume_step=100), "attempt", "from the checkpoint of step 100"),
    ],
)
def test_each_event_is_a_sentence(given: object, kind: str, text: str) -> None:
    (found,) = timeline([("localhost", given)])  # type: ignore[list-item]  # parametrize knows no types
    assert found.kind == kind
    assert text in found.text


def test_nonsense_in_a_journal_is_survived() -> None:
    odd = [
        event(name, 1.0, attempt="x", rank=[], step={}, size="1", first_failure=3, held_by=4, devices=1)
        for name in (
            "finished",
            "checkpoint",
            "hang",
            "queued",
            "attempt_started",
            "attempt_ended",
            "disk_low",
            "numbers_left_out",
            "agent_paused",
            "agent_killed",
            "agent_failed",
        )
    ]
    assert len(timeline([("localhost", item) for item in odd])) == len(odd)


def test_a_reader_tells_only_of_news(tmp_path: Path) -> None:
    layout = make_run(tmp_path, controller_journal())
    reader = TimelineReader(layout)
    first = reader.refresh()
    assert first is not None
    assert len(first) == 2
    assert reader.refresh() is None
    with layout.node("localhost").journal.open("a") as file:
        file.write(line(agent_started()))
    after = reader.refresh()
    assert after is not None
    assert [item.who for item in after] == ["controller", "controller", "localhost"]


def test_an_attempts_end_names_the_node_of_the_rank_that_failed_first() -> None:
    """In a run of several."""
    exited = event("rank_exited", attempt=1, rank=1, code=1, signal=None)
    leader = [agent_started(), started(), ended(outcome="failed", first=failure())]
    events = [*(("n1", each) for each in leader), ("n2", agent_started()), ("n2", exited)]
    (text,) = [each.text for each in timeline(events) if each.event == "attempt_ended"]
    assert "rank 1 on node n2 failed with exit code 1, ValueError: x" in text
