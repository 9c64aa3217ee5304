"""Which agents the controller starts, by values: a transport that only counts, and a clock of its own."""

import os
from collections.abc import Sequence
from itertools import count

import pytest

from torchdeck.contract.processes import ProcessIdentity
from torchdeck.launching.control.agent_watchdog import MAX_STARTS, AgentUnavailableError, AgentWatchdog
from torchdeck.launching.requests import Request
from torchdeck.launching.transport import Supervision
from torchdeck.runs.replay.history import RunHistory


class CountingTransport:
    """Agents that end at once."""

    node = "here"

    def __init__(self) -> None:
        self.starts = 0
        self.code = 1

    @property
    def unreached(self) -> str:
        return ""

    def supervision(
        self, agent: ProcessIdentity | None, holder: ProcessIdentity | None
    ) -> Supervision | None:
        return Supervision(*(found is not None and found.is_alive() for found in (agent, holder)))

    def start_agent(self, handover: bytes) -> None:  # noqa: ARG002 - nothing is handed on
        self.starts += 1

    def agent_exit(self) -> int | None:
        return self.code if self.starts else None

    def agent_is_starting(self) -> bool:
        return False

    def agent_log(self) -> str:
        return "no such plan\n"

    def deliver(self, request: Request) -> None:
        raise AssertionError(f"no one asked for {request}")

    def kill(self, processes: Sequence[ProcessIdentity]) -> None:
        raise AssertionError(f"no one asked for the end of {processes}")

    def ask_handover(self) -> bytes:
        raise AssertionError("a keeper is told what agents are handed")


def keeper(transport: CountingTransport) -> AgentWatchdog:
    """A keeper whose clock runs an hour from look to look."""
    hours = count(0, 3600)
    return AgentWatchdog(transport, clock=lambda: float(next(hours)))


def test_agents_that_end_one_after_the_other_are_given_up() -> None:
    """After five in a row the last words of the agent are told."""
    transport = CountingTransport()
    kept, history = keeper(transport), RunHistory()
    assert [kept.look(history) for _ in range(MAX_STARTS)] == [True] * MAX_STARTS
    with pytest.raises(AgentUnavailableError, match=r"here ended 5 times .* exit code 1\): no such plan"):
        kept.look(history)
    assert transport.starts == MAX_STARTS


def test_a_node_has_begun_once_something_lives_there() -> None:
    """From then on the controller looks less often, also where the agent ends again."""
    transport = CountingTransport()
    kept, history = keeper(transport), RunHistory()
    kept.look(history)
    assert not kept.begun
    myself = ProcessIdentity.of(os.getpid())
    assert myself is not None
    history.agents["here"] = myself
    kept.look(history)
    del history.agents["here"]
    kept.look(history)
    assert kept.begun


def test_a_holder_that_was_reached_begins_the_count_anew() -> None:
    """Only agents in a row count: one that started a shim has done its work."""
    transport = CountingTransport()
    kept, history = keeper(transport), RunHistory()
    for _ in range(MAX_STARTS - 1):
        kept.look(history)
    myself = ProcessIdentity.of(os.getpid())
    assert myself is not None
    history.holders["here"] = myself
    assert kept.look(history) is False
    del history.holders["here"]
    assert [kept.look(history) for _ in range(MAX_STARTS)] == [True] * MAX_STARTS


def test_an_agent_that_departed_is_none_that_could_not_begin() -> None:
    """One that has given up its leader may be started again as often as it departs."""
    transport = CountingTransport()
    transport.code = 0
    kept, history = keeper(transport), RunHistory()
    assert [kept.look(history) for _ in range(3 * MAX_STARTS)] == [True] * 3 * MAX_STARTS
