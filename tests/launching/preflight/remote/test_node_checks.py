"""Checks of nodes by what they said of themselves."""

import dataclasses
from typing import Any

import pytest

from support.values.node_facts import GIB, gpu, node_facts, python
from torchdeck.contract.plan.launch_plan import NodePlan
from torchdeck.launching.preflight.remote.machine_check import check_machine
from torchdeck.launching.preflight.remote.nodes import check_connections, check_versions
from torchdeck.nodes.probe.connections import Connected
from torchdeck.nodes.probe.probe_session import ClockOffset
from torchdeck.plan.check import Check

NODE = NodePlan(
    name="a",
    address="10.0.0.5",
    node_rank=0,
    nproc=2,
    devices=(),
    working_dir="/w",
    torchrun=("python", "-m", "torch.distributed.run"),
    rank_holder=(),
    command=("python", "train.py"),
    env={},
    unset=(),
)
GOOD_CLOCK = ClockOffset(0.001, 0.002)


def bad(checks: list[Check]) -> list[tuple[str, str, str]]:
    return [(check.name, check.status, check.node) for check in checks if check.status != "ok"]


def machine(clock: ClockOffset = GOOD_CLOCK, devices: tuple[str, ...] = (), **changes: Any) -> list[Check]:
    """All checks of one node."""
    node = dataclasses.replace(NODE, devices=devices)
    return list(check_machine("a", node_facts(**changes), clock, node))


def test_a_node_in_good_order_has_nothing_to_mend() -> None:
    """Every check is there, and green."""
    checks = machine()
    assert bad(checks) == []
    assert {check.name for check in checks} == {
        "devices",
        "clock",
        "shared memory",
        "host name",
        "login",
    }


def memory(**changes: int) -> dict[str, int]:
    return {"total": 16 * GIB, "free": 8 * GIB, "shm_total": 8 * GIB, "shm_free": 8 * GIB, **changes}


RUN = {
    "run_id": "dead",
    "directory": "/r",
    "processes": [7, 8],
    "ranks": [0],
    "user": "me",
    "supervised": False,
}


@pytest.mark.parametrize(
    ("changes", "name", "status", "said"),
    [
        ({"clock": ClockOffset(3.0, 0.01)}, "clock", "warning", "3.0 s ahead"),
        ({"clock": ClockOffset(-900.0, 0.01)}, "clock", "failed", "900.0 s behind"),
        ({"clock": ClockOffset(300.005, 0.01)}, "clock", "warning", "300.0 s ahead"),
        ({"memory": memory(shm_free=2**20)}, "shared memory", "warning", "2 ranks want"),
        ({"kills_after_logout": True}, "login", "failed", "KillUserProcesses"),
        ({"runs": [RUN]}, "orphans", "warning", "2 processes of dead runs"),
        ({"devices": ("GPU-9",)}, "devices", "failed", "GPU GPU-9 does not exist"),
        (
            {"own_name": {"name": "a", "resolves": False, "slow": False, "seconds": 0.0, "error": "no"}},
            "host name",
            "warning",
            "does not resolve",
        ),
        (
            {"gpu": {"devices": [], "driver": "", "cuda": "", "error": "nvidia-smi failed: 9"}},
            "devices",
            "failed",
            "nvidia-smi failed",
        ),
        (
            {"gpu": {"devices": [gpu(0, 77)], "driver": "1", "cuda": "", "error": ""}, "devices": ("GPU-0",)},
            "devices",
            "warning",
            "pid 77",
        ),
    ],
)
def test_what_is_wrong_is_said_with_what_helps(
    changes: dict[str, Any], name: str, status: str, said: str
) -> None:
    """One check is red or yellow, with the node and the fix; the others stay green."""
    checks = machine(**changes)
    assert bad(checks) == [(name, status, "a")]
    (check,) = (check for check in checks if check.status != "ok")
    assert said in check.what
    assert check.fix
    assert str(check) == f"node a: {check.what}: {check.fix}"


def test_all_nodes_have_the_same_versions() -> None:
    """Of one node nothing is to be said; of several alike, all is well."""
    assert list(check_versions({"a": node_facts("a")}, "nccl")) == []
    checks = list(check_versions({"a": node_facts("a"), "b": node_facts("b")}, "nccl"))
    assert bad(checks) == []
    things = ["same torch", "same python", "same cuda", "same nccl", "same driver"]
    assert [(check.name, check.node) for check in checks] == [
        (name, node) for name in things for node in "ab"
    ]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"torch": "2.12.0"}, "same torch"),
        ({"version": "3.12.1"}, "same python"),
        ({"cuda": "12.4"}, "same cuda"),
        ({"nccl": "2.20"}, "same nccl"),
    ],
)
def test_the_node_that_differs_is_named(change: dict[str, Any], name: str) -> None:
    """Whatever comes first is the measure, and both versions are said; the others are fine."""
    nodes = {"a": node_facts("a"), "b": node_facts("b", pythons=[python(**change)]), "c": node_facts("c")}
    checks = list(check_versions(nodes, "nccl"))
    assert bad(checks) == [(name, "failed", "b")]
    (check,) = (check for check in checks if check.status != "ok")
    assert "on a" in check.what
    assert "nodes edit" in check.fix


def test_a_node_without_torch_is_not_compared() -> None:
    """That there is none is the check of its Python; the others are still compared."""
    without = node_facts("b", pythons=[python(torch=None)])
    other = node_facts("c", pythons=[python(torch="2.12.0")])
    assert bad(list(check_versions({"b": without, "a": node_facts("a")}, "gloo"))) == []
    nodes = {"b": without, "a": node_facts("a"), "c": other}
    assert bad(list(check_versions(nodes, "gloo"))) == [("same torch", "failed", "c")]


def test_libraries_of_gpus_do_not_matter_on_the_cpu() -> None:
    """And neither does the patch level of Python."""
    other = node_facts("b", pythons=[python(cuda=None, nccl=None, version="3.11.9")])
    assert bad(list(check_versions({"a": node_facts("a"), "b": other}, "gloo"))) == []


def way(source: str, target: str, error: str = "") -> Connected:
    return Connected(source, target, 4711, ok=not error, latency=0.001, bandwidth=None, error=error)


def test_the_address_that_cannot_be_reached_is_named() -> None:
    """Who cannot, where to, and why."""
    addresses = {"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3"}
    ways = [
        way(source, target, "no answer within 5 s" if target == "b" and source == "c" else "")
        for source in addresses
        for target in addresses
        if source != target
    ]
    checks = list(check_connections(ways, addresses))
    assert bad(checks) == [("connections", "failed", "b")]
    assert "c cannot connect to 10.0.0.2, port 4711: no answer" in checks[1].what
