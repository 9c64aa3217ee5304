"""Conversations that stay open between a survey and the checks after it, over real sshd."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.hosts.hosts import TestHosts
from support.waiting import wait_until
from torchdeck.config.loader import config_from_dict
from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.launching.facts.node_facts import pre_connected
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.inventory.file import inventory_path
from torchdeck.nodes.probe.probe_session import ProbeError
from torchdeck.nodes.probe.probing import Question, open_probe_session, probe_nodes
from torchdeck.nodes.probe.session_pool import SessionPool
from torchdeck.nodes.ssh.connection import Connection
from torchdeck.nodes.ssh.errors import HostKeyUnknownError, UnreachableError
from torchdeck.nodes.ssh.target import SshTarget

LIMIT = 20.0


class Counted:
    """A way to nodes that knows the connections it has made."""

    def __init__(self, connector: Connector) -> None:
        self.made: list[Connection] = []
        self._reach = connector

    def __call__(self, name: str, limit: float) -> Connection:
        self.made.append(self._reach.connect(name, limit))
        return self.made[-1]


@pytest.fixture
def connector(hosts: Callable[..., TestHosts], torchdeck_home: Path) -> Connector:
    """To `n1`, one real host."""
    import tomlkit

    made = hosts(1)
    made.trust(torchdeck_home)
    inventory_path(torchdeck_home).write_text(tomlkit.dumps({"version": 1, "nodes": {"n1": made.entry(1)}}))
    return Connector(torchdeck_home)


def test_who_asks_again_logs_in_once(connector: Connector) -> None:
    """The survey's Python answers the checks too; two at a time need one each, and the end closes both."""
    entry = connector.node_inventory().nodes["n1"]
    connect = Counted(connector)
    with connector.keeping_probe_sessions() as kept:
        talking = kept.talking
        assert talking is not None
        (probed,) = probe_nodes({"n1": entry}, connect, Question(), talking)
        assert probed.facts is not None, probed.error
        with talking("n1", entry, connect, LIMIT) as first:
            assert first.ask(ProbeRequest.TIME, LIMIT)["time"] > 0
            assert len(connect.made) == 1
            with talking("n1", entry, connect, LIMIT) as second:
                assert second is not first
                assert second.ask(ProbeRequest.TIME, LIMIT)["time"] > 0
        assert [each.alive for each in connect.made] == [True, True]
        assert len(connect.made) == 2
    wait_until(lambda: not any(each.alive for each in connect.made), LIMIT, "the connections to be closed")


def test_what_came_to_harm_or_was_edited_is_not_used_again(connector: Connector) -> None:
    entry = connector.node_inventory().nodes["n1"]
    connect = Counted(connector)
    with connector.keeping_probe_sessions() as kept:
        talking = kept.talking
        assert talking is not None
        with (
            pytest.raises(ProbeError, match="did not answer"),
            talking("n1", entry, connect, LIMIT) as asked,
        ):
            asked.ask(ProbeRequest.TIME, 0.0)  # its answer would be taken for that to the next question
        assert not connect.made[0].alive
        with talking("n1", entry, connect, LIMIT) as asked:
            assert asked.ask(ProbeRequest.TIME, LIMIT)["time"] > 0
        edited = entry.model_copy(update={"working_dir": "/tmp"})
        with talking("n1", edited, connect, LIMIT) as asked:
            assert asked.ask(ProbeRequest.TIME, LIMIT)["time"] > 0
    assert len(connect.made) == 3


def test_without_it_each_conversation_is_closed(connector: Connector) -> None:
    connect = Counted(connector)
    with open_probe_session("n1", connector.node_inventory().nodes["n1"], connect, LIMIT) as probe_session:
        assert probe_session.ask(ProbeRequest.TIME, LIMIT)["time"] > 0
    assert not connect.made[0].alive


def test_one_that_was_begun_beforehand_is_the_first_asked(connector: Connector) -> None:
    """Who looks at the nodes gets it, though it may still be on its way; no one logs in twice."""
    entry = connector.node_inventory().nodes["n1"]
    connect = Counted(connector)
    probe_sessions = SessionPool()
    probe_sessions.begin({"n1": entry}, connect)
    with probe_sessions("n1", entry, connect, LIMIT) as asked:
        assert asked.ask(ProbeRequest.TIME, LIMIT)["time"] > 0
    with probe_sessions("n1", entry, connect, LIMIT) as again:
        assert again is asked
    assert len(connect.made) == 1
    probe_sessions.close()
    wait_until(lambda: not connect.made[0].alive, LIMIT, "the connection to be closed")


def test_one_that_was_begun_and_never_asked_is_closed(connector: Connector) -> None:
    entry = connector.node_inventory().nodes["n1"]
    connect = Counted(connector)
    probe_sessions = SessionPool()
    probe_sessions.begin({"n1": entry}, connect)
    probe_sessions.close()
    wait_until(lambda: connect.made, LIMIT, "the connection")
    wait_until(lambda: not connect.made[0].alive, LIMIT, "the connection to be closed")


def test_what_stood_in_the_way_is_said_to_who_asks_and_the_next_tries_again(connector: Connector) -> None:
    entry = connector.node_inventory().nodes["n1"]
    connect = Counted(connector)

    def refused(name: str, limit: float) -> Connection:
        raise UnreachableError(name, f"no one at home for {limit:.0f} s")

    probe_sessions = SessionPool()
    probe_sessions.begin({"n1": entry}, refused, 7.0)
    with (
        pytest.raises(UnreachableError, match="no one at home for 7 s"),
        probe_sessions("n1", entry, connect, LIMIT),
    ):
        pass
    with probe_sessions("n1", entry, connect, LIMIT) as asked:
        assert asked.ask(ProbeRequest.TIME, LIMIT)["time"] > 0
    probe_sessions.close()


def test_a_launch_begins_with_the_nodes_that_its_config_names(connector: Connector) -> None:
    """Those in the node inventory; the rest, and a damaged book, is for the survey to say."""
    config = config_from_dict(
        {"run": {"script": "train.py"}, "distributed": {"nodes": ["n1", "nobody"]}}, connector.home, ()
    )
    with pre_connected(config, connector) as kept:
        assert kept is not None
        assert kept.talking is not None
        with kept.open_probe_session("n1", LIMIT) as asked:
            assert asked.ask(ProbeRequest.TIME, LIMIT)["time"] > 0
        with kept.keeping_probe_sessions() as same, same.open_probe_session("n1", LIMIT) as again:
            assert again is asked
        with kept.open_probe_session("n1", LIMIT) as again:
            assert again is asked
    inventory_path(connector.home).write_text("no = book")
    with pre_connected(config, connector) as kept:
        assert kept is not None
    with pre_connected(config, None) as nothing:
        assert nothing is None


class Person:
    """Declines everything, and knows whether anything was asked."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def password(self, target: SshTarget, *, again: bool) -> str | None:  # noqa: ARG002
        self.asked.set()
        return None

    def passphrase(self, path: Path, *, again: bool) -> str | None:  # noqa: ARG002
        return None

    def trust(self, target: SshTarget, key_type: str, fingerprint: str) -> bool:  # noqa: ARG002
        self.asked.set()
        return False


def test_nobody_is_asked_before_an_answer_is_waited_for(connector: Connector) -> None:
    """A refusal of the config may come first: no prompt stands behind it."""
    (connector.home / "known_hosts").write_text("")
    person = Person()
    with replace(connector, asker=person).keeping_probe_sessions(["n1"]) as kept:
        probe_sessions = kept.talking
        assert isinstance(probe_sessions, SessionPool)
        (coming,) = probe_sessions._coming.values()
        assert isinstance(coming.exception(LIMIT), HostKeyUnknownError)
        assert not person.asked.is_set()
        with pytest.raises(HostKeyUnknownError), kept.open_probe_session("n1", LIMIT):
            pass
        assert person.asked.is_set()
