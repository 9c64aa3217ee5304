"""Links over real sshd: cut, healed, powered off, refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.hosts.hosts import TestHosts
from support.links.linked import NODE, LinkedRun
from support.waiting import wait_until
from torchdeck.contract.layout import RunLayout
from torchdeck.launching.remote.dial import SshDial
from torchdeck.launching.remote.link import LinkTarget, NodeLink
from torchdeck.nodes.inventory.schema import NodeEntry, NodeInventory
from torchdeck.nodes.ssh.credentials import Credentials, NoAsker
from torchdeck.nodes.ssh.target import target_for

Hosts = Callable[..., TestHosts]


class SshRun(LinkedRun):
    """A run whose node is a test host."""

    def __init__(self, folder: Path, hosts: TestHosts, trusted: Path) -> None:
        super().__init__(folder)
        entry = NodeEntry(**hosts.entry(1))
        target = target_for(NODE, entry, NodeInventory(), trusted)
        self.node_home = hosts.home(1) / "torchdeck home"
        self.there = RunLayout(self.node_home / "runs" / self.here.root.name)
        goal = LinkTarget(self.here, NODE, "~/torchdeck home", self.shipped)
        self.link = NodeLink(goal, SshDial(target, Credentials(), NoAsker(), entry))


@pytest.fixture
def made(hosts: Hosts) -> TestHosts:
    return hosts(1)


@pytest.fixture
def ssh_run(made: TestHosts, tmp_path: Path, torchdeck_home: Path) -> Iterator[SshRun]:
    run = SshRun(tmp_path, made, torchdeck_home)
    yield run
    run.close()


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_a_cut_of_the_line_loses_nothing(ssh_run: SshRun, made: TestHosts) -> None:
    """Noticed and said, with the time the node was heard last; on return everything missing arrives."""
    ssh_run.up()
    ssh_run.make_node()
    journal, log = ssh_run.there.node(NODE).journal, ssh_run.there.attempt(1).rank(0).stdout
    append(journal, b'{"before": 1}\n')
    append(log, b"before\n" * 100_000)
    asked = time.time()
    assert ssh_run.link.catch_up(60)
    assert ssh_run.differences() == []
    made.cut(1)
    cut_at = time.time()
    append(journal, b'{"during": 1}\n')
    append(log, b"during\n" * 100_000)
    wait_until(lambda: ssh_run.link.state.state == "lost", 40, "the cut to be noticed")
    state = ssh_run.link.state
    assert state.heard is not None
    assert asked < state.heard < cut_at + 5
    assert ssh_run.here.node(NODE).journal.read_bytes() == b'{"before": 1}\n'
    made.heal(1)
    append(journal, b'{"after": 1}\n')
    wait_until(lambda: ssh_run.link.state.state == "up", 60, f"up again: {ssh_run.link.state}")
    assert ssh_run.link.catch_up(60)
    assert ssh_run.differences() == []


def test_a_node_that_was_off_comes_back(ssh_run: SshRun, made: TestHosts) -> None:
    """Its run directory is what its disk kept."""
    ssh_run.up()
    ssh_run.make_node()
    append(ssh_run.there.node(NODE).journal, b"one\ntwo\nthree\n")
    assert ssh_run.link.catch_up(60)
    made.power_off(1)
    wait_until(lambda: ssh_run.link.state.state == "lost", 40, "the node to be lost")
    ssh_run.there.node(NODE).journal.write_bytes(b"one\nfour\n")  # what a power cut took was not on disk
    made.boot(1)
    wait_until(lambda: ssh_run.link.state.state == "up", 60, f"up again: {ssh_run.link.state}")
    assert ssh_run.link.catch_up(60)
    assert ssh_run.here.node(NODE).journal.read_bytes() == b"one\nfour\n"


def test_a_changed_host_key_is_refused(ssh_run: SshRun, made: TestHosts) -> None:
    """Also in the middle of a run."""
    ssh_run.up()
    made.change_host_key(1)
    session = ssh_run.link._session
    assert session is not None
    session.close()
    wait_until(lambda: ssh_run.link.state.state == "refused", 60, f"refused: {ssh_run.link.state}")
    assert "host key" in ssh_run.link.state.why


def test_a_node_that_lets_nobody_in_needs_a_login(ssh_run: SshRun, made: TestHosts) -> None:
    """The run continues without it, and the link is tried again when a person gives one."""
    keys = made._of(1) / "authorized_keys"
    kept = keys.read_bytes()
    keys.write_bytes(b"")
    ssh_run.link.start()
    wait_until(lambda: ssh_run.link.state.state == "needs_login", 60, f"a login: {ssh_run.link.state}")
    keys.write_bytes(kept)
    ssh_run.link.retry()
    ssh_run.up()


def test_nothing_is_left_on_the_node_when_a_link_is_closed(ssh_run: SshRun, made: TestHosts) -> None:
    """Neither the link server nor a shell."""
    before = set(made.pids(1))
    ssh_run.up()
    assert set(made.pids(1)) > before
    ssh_run.link.close()
    wait_until(lambda: set(made.pids(1)) <= before, 30, "the link's processes to end")


def test_the_clock_of_a_node_is_known_by_its_offset(ssh_run: SshRun, made: TestHosts) -> None:
    """With the error that the way there makes. The other clock is libfaketime's."""
    made.shift_clock(1, 3.5)
    ssh_run.up()
    wait_until(lambda: ssh_run.link.state.clock_error is not None, 30, "the clock's offset")
    state = ssh_run.link.state
    assert state.clock_offset is not None
    assert state.clock_error is not None
    assert abs(state.clock_offset - 3.5) <= state.clock_error + 0.01
    ssh_run.make_node()
    append(ssh_run.there.node(NODE).journal, b"line\n")
    assert ssh_run.link.catch_up(30)
    assert ssh_run.differences() == []
