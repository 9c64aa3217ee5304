"""What a view says of damaged journals, late heartbeats, errors of agents and processes that are left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.values.histories import (
    DEAD,
    agent_started,
    clock,
    controller_journal,
    ended,
    event,
    failure,
    finished,
    fold,
    folded,
    running_run,
    started,
)
from torchdeck.contract.journal import Event
from torchdeck.runs.replay.journal_damage import JournalDamage
from torchdeck.runs.run_state import Liveness, NodeLiveness, RunState


def test_late_heartbeat_is_said() -> None:
    """An agent that is alive and has not written for long is a warning."""
    late = folded(running_run(), beat={"t": 105.0}, now=135.0)
    assert late.warnings[0] == "no sign of the agent on localhost for 30 s"


def test_torn_journal_is_tolerated_and_said() -> None:
    """Lines that could not be read are counted in a warning, also after the end."""
    view = folded([*running_run(), finished()], DEAD, damage=[JournalDamage("journal.jsonl", lines=2)])
    assert view.state is RunState.SUCCEEDED
    assert "2 lines of journal.jsonl" in view.warnings[0]


NODE_DAMAGE = JournalDamage("nodes/localhost/journal.jsonl", "localhost", lines=1)


CANCELLED = [
    *running_run(),
    event("stopping", 103.0, kind="graceful", why="user"),
    ended(outcome="stopped"),
    finished("CANCELLED", why="stop requested"),
]


@pytest.mark.parametrize("missing", range(len(CANCELLED)))
def test_a_damaged_line_never_turns_a_cancelled_run_into_a_failed_one(missing: int) -> None:
    left = CANCELLED[:missing] + CANCELLED[missing + 1 :]
    view = folded(left, DEAD, damage=[NODE_DAMAGE])
    assert view.state in (RunState.CANCELLED, RunState.LOST)
    assert any("nodes/localhost/journal.jsonl" in warning for warning in view.warnings)


def test_an_end_that_cannot_be_read_is_no_failure() -> None:
    """A failed attempt was about to be restarted as the user stopped the run, and that line is damaged."""
    events = [*running_run(), ended(outcome="failed", first=failure()), event("restarting", 104.5, delay=9.0)]
    stopping = event("stopping", 105.0, kind="now", why="user")
    assert folded(events, DEAD).state is RunState.FAILED
    lost = folded(events, DEAD, damage=[NODE_DAMAGE])
    assert (lost.state, "nodes/localhost/journal.jsonl" in lost.why) == (RunState.LOST, True)
    assert folded([*events, stopping], DEAD, damage=[NODE_DAMAGE]).state is RunState.CANCELLED


def test_nodes_whose_ranks_outlive_the_end_are_named() -> None:
    leader = [*running_run(), ended(1, "failed"), finished("FAILED")]
    lost = [event("lead_lost", 104.5, unattended="continue")]
    over = fold("r", controller_journal(), {"localhost": leader, "b": lost}, {}, DEAD, 110.0)
    assert over.is_over
    assert over.nodes_alone == ("b",)
    assert over.warnings == (
        "ranks on node b continued without the leader at the last report: a stop ends them",
    )
    told = [*lost, event("node_finished", 105.0, attempt=1)]
    assert (
        fold("r", controller_journal(), {"localhost": leader, "b": told}, {}, DEAD, 110.0).nodes_alone == ()
    )


def agent_failed(at: float) -> Event:
    return event("agent_failed", at, error="RecursionError: too deep (channel.py, line 207)")


@pytest.mark.parametrize("offset", [-3600.0, -60.0, 0.0, 60.0, 3600.0])
def test_an_agents_own_error_is_named_before_what_follows_from_it(offset: float) -> None:
    """A rank that lost its peers fails too; its words are a consequence. No clock changes that."""
    reset = failure(message="RuntimeError: Connection reset by peer")
    end = finished("FAILED", why="rank 1 failed first: RuntimeError: Connection reset by peer")
    reset["time"] += offset
    events = [*running_run(), agent_failed(102.5), ended(1, "failed", reset), end]
    there = [replace(each, time=each.time + offset) for each in events]
    view = folded(there, Liveness(nodes={"localhost": NodeLiveness(link=clock(offset))}))
    assert view.why.startswith(
        "the agent on localhost ended by an error of its own, RecursionError: too deep (channel.py, line 207)"
    )
    assert view.why.endswith("Connection reset by peer")
    assert view.agent_error in view.why


def test_an_agents_error_that_was_got_over_is_only_a_warning() -> None:
    """While the run continues; an error long before a failure, or in an earlier attempt, did not lead to
    it.
    """
    going = folded([*running_run(), agent_failed(102.5), agent_started(103.0, adopted=True)])
    assert any("ended by an error of its own" in warning for warning in going.warnings)
    late = ended(1, "failed", failure(time=5000.0))
    end = finished("FAILED", 5001.0, why="rank 1 failed first")
    assert folded([*running_run(), agent_failed(102.5), late, end]).why == "rank 1 failed first"
    again = [*running_run(), agent_failed(102.5), started(2, 500.0, reason="restart"), end]
    assert folded(again).why == "rank 1 failed first"
