"""The history of a run on several nodes, whichever journal is read or arrives first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.values import histories
from torchdeck.contract.journal import Event
from torchdeck.runs import reasons
from torchdeck.runs.replay.history import RunHistory
from torchdeck.runs.run_state import RunState

Told = tuple[str, dict[str, Any]]
SIZE = {"world_size": 2, "global_batch": 8, "accumulation": 1, "rendezvous": "static", "notes": []}
POINT = {"source": "own", "name": "step_00000020", "step": 20}


def launching(number: int, reason: str, resume: dict[str, Any] | None) -> Told:
    fields = {"attempt": number, "reason": reason, "port": 1, "resume": resume, "nodes": ["a", "b"], **SIZE}
    return "launching", fields


def started(number: int, device: str) -> Told:
    return "attempt_started", {
        "attempt": number,
        "resume": "",
        "devices": [device],
        "reason": "first",
        **SIZE,
    }


def exited(number: int, rank: int, code: int) -> Told:
    return "rank_exited", {"attempt": number, "rank": rank, "code": code, "signal": None}


LEADER: list[Told] = [
    ("agent_started", {"part": "lead", "life": 0}),
    ("listening", {"address": "10.0.0.1", "port": 5}),
    ("node_joined", {"node": "b"}),
    ("clock", {"node": "b", "offset": 2.5, "error": 0.001}),
    ("leased", {"devices": ["A0"]}),
    launching(1, "first", None),
    started(1, "A0"),
    ("running", {"attempt": 1}),
    ("checkpoint", {"step": 20, "path": "/a/step_00000020", "seconds": 1.0, "size": 5}),
    exited(1, 0, 1),
    ("attempt_ended", {"attempt": 1, "outcome": "failed", "first_failure": None, "killed": 0}),
    ("restarting", {"attempt": 1, "delay": 1.0, "reason": "restart"}),
    launching(2, "restart", POINT),
    started(2, "A0"),
    ("running", {"attempt": 2}),
    ("node_silent", {"node": "b", "seconds": 15.0}),
    exited(2, 0, 0),
    ("node_back", {"node": "b", "seconds": 17.0}),
    ("attempt_ended", {"attempt": 2, "outcome": "succeeded", "first_failure": None, "killed": 0}),
    ("finished", {"state": "SUCCEEDED", "why": "all ranks finished", "attempt": 2}),
]
FOLLOWER: list[Told] = [
    ("agent_started", {"part": "follower", "life": 0}),
    ("leased", {"devices": ["B0"]}),
    started(1, "B0"),
    ("hang", {"attempt": 1, "rank": 1, "phase": "training", "step": 3, "still": 40.0, "limit": 30.0}),
    ("checkpoint", {"step": 20, "path": "/b/step_00000020", "seconds": 1.0, "size": 5}),
    exited(1, 1, 143),
    ("attempt_over", {"attempt": 1, "outcome": "failed"}),
    started(2, "B0"),
    ("hang", {"attempt": 2, "rank": 1, "phase": "training", "step": 9, "still": 40.0, "limit": 30.0}),
    exited(2, 1, 0),
    ("attempt_over", {"attempt": 2, "outcome": "succeeded"}),
    ("node_finished", {"why": "SUCCEEDED: all ranks finished", "attempt": 2}),
]


def told(history: RunHistory, node: str, event: Told) -> None:
    history.node_event(node, Event(event[0], 100.0, 0.0, event[1]))


def read_in_order(order: list[bool], leader: list[Told], follower: list[Told]) -> RunHistory:
    """Both journals, the next event of the leader's where `order` says so."""
    history, ahead, behind = RunHistory(), list(leader), list(follower)
    for takes_leader in order:
        if takes_leader and ahead:
            told(history, "a", ahead.pop(0))
        elif behind:
            told(history, "b", behind.pop(0))
    for node, rest in (("a", ahead), ("b", behind)):
        for event in rest:
            told(history, node, event)
    return history


@given(st.lists(st.booleans(), max_size=40), st.integers(0, len(LEADER)))
def test_no_order_of_two_journals_changes_what_is_known(order: list[bool], upto: int) -> None:
    """The leader says where the run is; attempts, exits, hangs and devices are of both nodes."""
    leader = LEADER[:upto]
    history = read_in_order(order, leader, FOLLOWER)
    alone = RunHistory()
    for event in leader:
        told(alone, "a", event)
    ended = history.finished is not None
    if leader:
        assert (history.phase, history.attempt, ended) == (
            alone.phase,
            alone.attempt,
            alone.finished is not None,
        )
    assert {
        number: sorted(exit_.rank for exit_ in history.exits(number) if exit_.rank == 1)
        for number in history.attempts
    } == {1: [1], 2: [1]}
    for number, view in alone.attempts.items():
        assert (history.attempts[number].reason, history.attempts[number].outcome) == (
            view.reason,
            view.outcome,
        )
        assert history.attempts[number].resume_step == view.resume_step
    assert history.checkpoints.newest is not None
    if alone.checkpoints.newest is not None:
        assert history.checkpoints.newest.path == "/a/step_00000020"
    assert history.hangs == {}, "each hang ended with its rank"


def test_a_hang_of_an_earlier_attempt_is_none_of_this_one() -> None:
    """The follower's journal of attempt 1 arrives when the leader is in attempt 2 already."""
    history = read_in_order([True] * 14, LEADER[:14], FOLLOWER[:4])
    assert history.hangs == {}
    for event in FOLLOWER[4:9]:
        told(history, "b", event)
    assert history.hangs[1].step == 9


def test_what_the_lead_says_of_its_followers() -> None:
    """Clocks, silence, who departed, and what all have leased."""
    history = read_in_order([True] * 16, LEADER[:16], FOLLOWER[:9])
    assert history.nodes.clocks == {"b": (2.5, 0.001)}
    assert set(history.nodes.silent) == {"b"}
    assert history.nodes.devices == ("A0", "B0")
    assert history.phase is RunState.RUNNING
    history = read_in_order([True] * 20, LEADER, FOLLOWER)
    assert history.nodes.silent == {}
    assert history.nodes.departed == {"b"}


def test_what_followers_say_of_the_lead() -> None:
    """Who has given it up is known, and what its ranks do, until it is heard again or the node departs."""
    history = read_in_order([True] * 16, LEADER[:16], FOLLOWER[:9])
    assert history.nodes.leaderless == {}
    lost: Told = ("lead_lost", {"seconds": 120.0, "unattended": "continue"})
    told(history, "b", lost)
    assert history.nodes.leaderless == {"b": "continue"}
    assert reasons.leaderless("b", "continue") == (
        "node b has not heard from the leading node for launch.node_grace: its ranks continue without it "
        "(launch.unattended)"
    )
    told(history, "b", ("lead_back", {"seconds": 130.0}))
    assert history.nodes.leaderless == {}
    told(history, "b", lost)
    told(history, "b", ("node_finished", {"why": "the leading node is silent", "attempt": 2}))
    assert history.nodes.leaderless == {}


@pytest.mark.parametrize("first", [True, False])
def test_a_deserted_node_goes_on_no_more_until_it_says_so_anew(*, first: bool) -> None:
    """Whichever journal is read first."""
    lost = histories.event("lead_lost", 300.5, unattended="continue")
    deserted = histories.event("deserted", 200.0, node="b", lost=300.5)
    history = RunHistory()
    if first:
        history.controller_event(deserted)
    history.node_event("b", lost)
    seen = [history.nodes.go_on_alone]
    history.controller_event(deserted)
    seen.append(history.nodes.go_on_alone)
    history.node_event("b", histories.event("lead_lost", 400.0, unattended="continue"))
    seen.append(history.nodes.go_on_alone)
    assert seen == [() if first else ("b",), (), ("b",)]


def test_who_does_not_say_the_token_is_named_until_the_missing_agent_starts() -> None:
    """Its start stands in a journal that is read later, or was read before."""
    asked = histories.event("token_asked", 200.0, nodes=["b"], patience=120.0)
    history = RunHistory()
    history.controller_event(asked)
    history.node_event("a", histories.event("agent_started", 150.0, identity=None, part="lead"))
    assert list(history.nodes.untold) == ["b"]
    assert "the agent on b has not reported it yet" in reasons.untold(history.nodes.untold)
    history.node_event("a", histories.event("agent_started", 201.0, identity=None, part="lead"))
    assert list(history.nodes.untold) == []
    history.controller_event(histories.event("token_asked", 300.0, nodes=["b", "c"], patience=120.0))
    assert "the agents on b, c have" in reasons.untold(history.nodes.untold)
    history.controller_event(histories.event("token_settled", 301.0, how="anew"))
    assert list(history.nodes.untold) == []
