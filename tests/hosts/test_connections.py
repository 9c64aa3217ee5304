"""Connections between real hosts, tried before a start."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.hosts.hosts import TestHosts
from torchdeck.launching.preflight.remote.nodes import check_connections
from torchdeck.nodes.inventory.schema import NodeEntry, NodeInventory
from torchdeck.nodes.probe.connections import Connected, connect_all
from torchdeck.nodes.probe.probing import open_probe_session
from torchdeck.nodes.ssh.connection import Connection, connect
from torchdeck.nodes.ssh.credentials import Credentials, NoAsker
from torchdeck.nodes.ssh.target import target_of
from torchdeck.plan.check import Check

HostsOf = Callable[..., TestHosts]


def tried(
    made: TestHosts, home: Path, port: int | None = None, size: int = 0
) -> tuple[list[Connected], list[Check]]:
    """Every way between the hosts, and what is said of it."""
    made.trust(home)
    node_inventory = NodeInventory(
        nodes={f"n{i}": NodeEntry.model_validate(made.entry(i)) for i in range(1, made.count + 1)}
    )
    addresses = {f"n{i}": made.address(i) for i in range(1, made.count + 1)}

    def to(name: str, limit: float) -> Connection:
        return connect(target_of(name, node_inventory, home), Credentials(), NoAsker(), limit)

    with ExitStack() as stack:
        probe_sessions = {
            name: stack.enter_context(open_probe_session(name, entry, to, 20.0))
            for name, entry in node_inventory.nodes.items()
        }
        ways = connect_all(probe_sessions, addresses, port=port, size=size)
    return ways, list(check_connections(ways, addresses))


def test_every_way_is_tried_and_measured(hosts: HostsOf, tmp_path: Path) -> None:
    """Six ways between three hosts."""
    ways, checks = tried(hosts(3), tmp_path, size=2**20)
    assert len(ways) == 6
    assert all(way.ok and way.latency and way.bandwidth for way in ways)
    assert [check.status for check in checks] == ["ok"] * 3


@pytest.mark.soak
def test_a_blocked_port_is_found_in_seconds(hosts: HostsOf, tmp_path: Path) -> None:
    """A firewall on the first host drops what comes to the rendezvous port."""
    made = hosts(2)
    made.block_port(1, "29511")
    ways, checks = tried(made, tmp_path, port=29511)
    bad = {(way.source, way.target): way for way in ways if not way.ok}
    assert set(bad) == {("n2", "n1")}
    assert [check.status for check in checks] == ["failed", "ok"]
    assert "port 29511" in checks[0].what


def test_a_port_in_use_is_said(hosts: HostsOf, tmp_path: Path) -> None:
    """The node itself says so."""
    made = hosts(2)
    _, checks = tried(made, tmp_path, port=22)
    assert [check.status for check in checks] == ["failed", "ok"]
    assert "in use" in checks[0].what
