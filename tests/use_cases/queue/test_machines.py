"""Machines as the queue sees them: nodes, this machine, and who holds their GPUs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from torchdeck.agent.leases import Leases
from torchdeck.contract.inventory import Device
from torchdeck.contract.layout import Home
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.inventory.schema import NodeEntry, NodeGroup, NodeInventory
from torchdeck.nodes.probe.facts import Gpu as NodeGpu
from torchdeck.nodes.probe.facts import GpuProcessHere, Gpus, NodeFacts
from torchdeck.nodes.probe.monitoring import LeaseHolder, NodeNow, NodeState, Sample
from torchdeck.queue.asked import ALL
from torchdeck.queue.scheduling.ask import Ask, Gpu, Machine, Place
from torchdeck.queue.scheduling.scheduler import Running
from torchdeck.queue.state import QueueLimits
from torchdeck.use_cases.queue import machines
from torchdeck.use_cases.queue.machines import OTHER_PROGRAM, MachineWatch, look_at_node, resolved

GIB = 2**30
FAST = NodeEntry(address="a", tags=["fast"])
INVENTORY = NodeInventory(
    nodes={"a": FAST, "b": NodeEntry(address="b"), "c": FAST}, groups={"lab": NodeGroup(nodes=["b", "a"])}
)


@pytest.mark.parametrize(
    ("ask", "nodes", "count"),
    [
        (Ask(("any",), 1), ("localhost", "a", "b", "c"), 1),
        (Ask(("any",), 2), ("a", "b", "c"), 2),
        (Ask(("tag:fast",), 1), ("a", "c"), 1),
        (Ask(("lab",), ALL), ("b", "a"), 2),
        (Ask(("1:2",), ALL), ("a", "b"), 2),
        (Ask(("localhost",), ALL), ("localhost",), 1),
        (Ask(("nowhere",), ALL), ("nowhere",), 1),
    ],
)
def test_nodes_that_an_entry_may_use(ask: Ask, nodes: tuple[str, ...], count: int) -> None:
    found = resolved(ask, INVENTORY)
    assert (found.nodes, found.count) == (nodes, count)


def node_now(owners: dict[str, LeaseHolder], processes: tuple[GpuProcessHere, ...] = ()) -> NodeNow:
    gpus = tuple(
        NodeGpu(index=index, uuid=f"GPU-{index}", name="T4", memory=16 * GIB, free=None) for index in range(4)
    )
    facts = NodeFacts.model_construct(gpu=Gpus(devices=gpus, driver="", cuda="", error=""))
    sample = Sample(time=0.0, values={}, load=(0.0, 0.0, 0.0), owners=owners)
    return NodeNow("a", NodeState.UP, 0.0, facts=facts, sample=sample, gpu_processes=processes)


def held(index: int, owner: str, node: str = "a") -> Running:
    return Running(owner, (Place(node, (index,)),), counts=False)


def test_a_node_has_holders_that_are_not_runs_of_the_queue() -> None:
    owners = {"GPU-0": LeaseHolder(run_id="theirs"), "1": LeaseHolder(run_id="ours")}
    stranger = GpuProcessHere(uuid="GPU-2", pid=7)
    found = look_at_node(node_now(owners, (stranger,)), [0, 1, 2], ["ours"])
    assert found.machines == (
        Machine("a", tuple(Gpu(index, f"GPU-{index}", "T4", 16 * GIB) for index in range(3))),
    )
    assert found.others == (held(0, "run theirs"), held(2, OTHER_PROGRAM))


def test_nothing_starts_on_a_node_whose_leases_are_unknown() -> None:
    unknown = replace(node_now({}), sample=None)
    assert look_at_node(unknown, None, ()).machines[0].away == "not connected yet"
    lost = replace(unknown, state=NodeState.LOST, error=OSError("no route"))
    assert look_at_node(lost, None, ()).machines[0].away == "no route"


def test_this_machine_has_leases_and_other_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    devices = [Device(index, f"GPU-{index}", "T4", 16 * GIB, 16 * GIB) for index in range(4)]
    devices[3] = replace(devices[3], free_bytes=8 * GIB)
    monkeypatch.setattr(machines, "probe_gpus", lambda: tuple(devices))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2,3")
    leases = Leases(Home(tmp_path).leases, ["GPU-1"], "theirs", "theirs")
    watch = MachineWatch(Connector(tmp_path))
    limits = QueueLimits({"localhost": 3})

    def look(*own: str) -> machines.Look:
        return watch.look(["localhost", "nowhere"], NodeInventory(), limits, own)

    assert look().others == (held(3, OTHER_PROGRAM, "localhost"),)
    assert not leases.acquire()
    assert look().others == (held(1, "run theirs", "localhost"), held(3, OTHER_PROGRAM, "localhost"))
    assert look("theirs").others == (held(3, OTHER_PROGRAM, "localhost"),)
    leases.release()
    assert [gpu.index for gpu in look().machines[0].gpus] == [1, 2, 3]
    assert look().machines[0].slots == 3
