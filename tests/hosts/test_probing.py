"""Looking at several real hosts at once."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.hosts.hosts import TestHosts
from torchdeck.contract.processes import RUN_ID_VARIABLE
from torchdeck.nodes.inventory.schema import NodeEntry, NodeInventory
from torchdeck.nodes.probe.probing import LIMIT, Connect, Probed, Question, clean_node, probe_nodes
from torchdeck.nodes.ssh.connection import Connection, connect
from torchdeck.nodes.ssh.credentials import Credentials, NoAsker
from torchdeck.nodes.ssh.target import target_of

HostsOf = Callable[..., TestHosts]


def connecting(node_inventory: NodeInventory, home: Path) -> Connect:
    """Connects as a front end without a screen does."""
    credentials = Credentials()

    def to(name: str, limit: float) -> Connection:
        return connect(target_of(name, node_inventory, home), credentials, NoAsker(), limit)

    return to


def inventory_of(made: TestHosts, **more: object) -> NodeInventory:
    """All hosts, by `n1` and on."""
    return NodeInventory(
        nodes={f"n{i}": NodeEntry.model_validate(made.entry(i, **more)) for i in range(1, made.count + 1)}
    )


def probed(
    node_inventory: NodeInventory, connect: Connect, question: Question | None = None
) -> dict[str, Probed]:
    return {found.node: found for found in probe_nodes(node_inventory.nodes, connect, question)}


def test_nodes_are_looked_at_at_once(hosts: HostsOf, tmp_path: Path) -> None:
    """Facts of each, the way to its peers by the kernel, its clock; one that is gone is said, in its time."""
    made = hosts(3)
    made.trust(tmp_path)
    node_inventory = inventory_of(made)
    made.power_off(3)
    to = connecting(node_inventory, tmp_path)
    limits = {"n1": LIMIT, "n2": LIMIT, "n3": 3.0}
    peers = Question(peers=(made.address(1), made.address(2)))
    found = probed(node_inventory, lambda name, _: to(name, limits[name]), peers)
    for i in (1, 2):
        facts, clock = found[f"n{i}"].facts, found[f"n{i}"].clock
        assert facts is not None, found[f"n{i}"].error
        assert clock is not None
        assert facts.system.host == made.name(i)
        assert facts.home.startswith(str(made.home(i)))
        assert facts.python.torch
        other = facts.routes[2 - i]
        assert (other.interface, other.address) == (made.interface(i), made.address(i))
        assert abs(clock.seconds) <= clock.error + 0.05
    assert found["n1"].facts != found["n2"].facts
    assert found["n3"].facts is None
    assert "node n3" in found["n3"].error


def test_a_clock_that_differs_is_seen(hosts: HostsOf, tmp_path: Path) -> None:
    """By libfaketime on that host: everything its sshd starts sees another time."""
    made = hosts(1)
    made.trust(tmp_path)
    made.shift_clock(1, 90)
    node_inventory = inventory_of(made)
    clock = probed(node_inventory, connecting(node_inventory, tmp_path))["n1"].clock
    assert clock is not None
    assert clock.seconds == pytest.approx(90, abs=2)


def test_nothing_is_left_on_a_node(hosts: HostsOf, tmp_path: Path) -> None:
    """Neither a file nor a process."""
    made = hosts(1)
    made.trust(tmp_path)
    node_inventory = inventory_of(made)
    before = sorted(made.home(1).rglob("*"))
    assert probed(node_inventory, connecting(node_inventory, tmp_path))["n1"].facts is not None
    assert sorted(made.home(1).rglob("*")) == before


@pytest.mark.soak
def test_orphans_on_a_node_are_ended(hosts: HostsOf, tmp_path: Path) -> None:
    """What carries the id of a run that no one looks after."""
    made = hosts(1)
    made.trust(tmp_path)
    node_inventory = inventory_of(made)
    to = connecting(node_inventory, tmp_path)
    with to("n1", 20.0) as connection:
        connection.run(f"{RUN_ID_VARIABLE}=dead RANK=0 setsid sleep 600 </dev/null >/dev/null 2>&1 &")
    facts = probed(node_inventory, to)["n1"].facts
    assert facts is not None
    assert [(run.run_id, run.ranks) for run in facts.orphans] == [("dead", (0,))]
    answer = clean_node("n1", node_inventory.nodes["n1"], to, ["dead"])
    assert (answer["ended"], answer["left"]) == ({"dead": 1}, 0)
    after = probed(node_inventory, to)["n1"].facts
    assert after is not None
    assert after.runs == ()


@pytest.mark.soak  # a normal run connects to 32 at once, in tests/nodes/ssh/test_connection.py
def test_many_nodes_answer_soon(hosts: HostsOf, tmp_path: Path) -> None:
    """Thirty-two at once; how fast is for the benchmark to say."""
    made = hosts(32)
    made.trust(tmp_path)
    node_inventory = inventory_of(made)
    started = time.monotonic()
    found = probed(node_inventory, connecting(node_inventory, tmp_path))
    seconds = time.monotonic() - started
    assert [name for name, probe in found.items() if probe.error] == []
    assert len({probe.facts.system.host for probe in found.values() if probe.facts}) == 32
    print(f"32 nodes in {seconds:.2f} s")
