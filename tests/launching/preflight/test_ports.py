"""What `check` says of ports, by the plans of runs."""

from dataclasses import replace
from typing import Any

import pytest

from support.values.checked_config import CheckedConfig
from support.values.machines import config, node, plan
from support.values.node_facts import node_facts
from torchdeck.launching import preflight
from torchdeck.launching.facts.probed_nodes import NodeReport
from torchdeck.launching.preflight.network import check_ports
from torchdeck.nodes.probe.probing import Probed

NODES = (replace(node("a"), address="10.0.0.1", interface="eth1"), replace(node("b"), address="10.0.0.2"))
ON_TWO = {"nodes": ["a", "b"], "nproc": 1, "devices": "cpu"}


def said(run: dict[str, Any], *nodes: Any, **distributed: Any) -> dict[str, str]:
    """Node → what is said of its ports."""
    tables = {"training": {"steps": 1}} if "recipe" in run else {}
    made = plan(config(run, distributed=distributed, **tables), *nodes)
    checks = list(check_ports(made))
    assert {(check.name, check.status) for check in checks} == {("ports", "ok")}
    return {check.node: check.what for check in checks}


def test_on_one_node_no_port_is_open_to_other_machines() -> None:
    """The store takes one user's processes, and ranks are torch's own affair."""
    (what,) = said({"script": "/code/train.py"}).values()
    assert what == (
        "no port is open to other machines. "
        "Store: a random port of 127.0.0.1, for processes of your user only; "
        "ranks: random ports of 127.0.0.1, open to all users of the machine, because torch does not "
        "authenticate peers"
    )
    (what,) = said({"script": "/code/train.py"}, rendezvous={"port": 29_501}).values()
    assert "Store: port 29501 of 127.0.0.1" in what


def test_an_interface_of_ones_own_is_said_to_be_open() -> None:
    (what,) = said({"script": "/code/train.py", "env": {"GLOO_SOCKET_IFNAME": "eth0"}}).values()
    assert "no port is open to other machines" not in what
    assert "ranks: random ports on interface eth0, open to everyone who reaches it" in what


def test_on_several_nodes_each_is_said_for_itself() -> None:
    found = said({"recipe": "byte-gpt"}, *NODES, **ON_TWO)
    assert found["a"] == (
        "Leading agent: a random port of 10.0.0.1, for agents that prove the run's token; "
        "store: a random port of 10.0.0.1, for nodes that prove a key of the run; "
        "ranks: random ports on interface eth1, open to everyone who reaches it, because torch does "
        "not authenticate peers"
    )
    where = "the address of the host's name"
    assert found["b"] == (
        f"Ranks: random ports on {where}, open to everyone who reaches it, because torch does not "
        "authenticate peers"
    )


def test_a_spare_makes_the_agent_of_a_single_node_listen() -> None:
    found = said({"recipe": "byte-gpt"}, *NODES, **ON_TWO, spare=1)
    assert found["a"].startswith("Leading agent: a random port of 10.0.0.1, for agents that prove")
    assert "store: a random port of 127.0.0.1" in found["a"]
    assert found["b"].startswith("Once it replaces another node: ranks: random ports ")


def test_the_store_of_a_script_on_several_nodes_is_torchs_own() -> None:
    found = said({"script": "/code/train.py"}, *NODES, **ON_TWO)
    assert "open to everyone who reaches that address: a script's ranks are not authenticated" in found["a"]


@pytest.mark.parametrize(
    ("run", "nodes", "distributed", "what"),
    [
        ({"script": "/code/train.py"}, (), {}, "of 127.0.0.1, open to all users of the machine: no table;"),
        (
            {"recipe": "byte-gpt"},
            NODES,
            ON_TWO,
            "prove a key of the run, and open to all users of a: no table;",
        ),
        ({"script": "/code/train.py"}, NODES, ON_TWO, ""),
    ],
)
def test_a_kernel_that_closes_no_store_is_warned_of(
    run: dict[str, Any], nodes: tuple[Any, ...], distributed: dict[str, Any], what: str
) -> None:
    """On the node of the store, unless the plan leaves it open anyway."""
    tables = {"training": {"steps": 1}} if "recipe" in run else {}
    made = plan(config(run, distributed=distributed, **tables), *nodes)
    first, *others = check_ports(made, "no table")
    assert (first.status == "warning") == bool(what)
    assert what in first.what
    assert "for processes of your user only" not in first.what
    assert {check.status for check in others} <= {"ok"}


def test_check_asks_this_machines_kernel(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it runs here; of another node its answer counts."""
    monkeypatch.setattr(preflight, "why_open", lambda: "no table")
    found = CheckedConfig(tmp_path).script(distributed={"nproc": 1, "devices": "cpu"})
    assert found["ports"].status == "warning"
    assert "CONFIG_TCP_MD5SIG" in found["ports"].fix


@pytest.mark.parametrize("said", ["no table", "", None])
def test_check_asks_another_nodes_kernel(said: str | None) -> None:
    made = plan(config({"recipe": "byte-gpt"}, distributed=ON_TWO, training={"steps": 1}), *NODES)
    probed = {"a": Probed("a", 0.1, node_facts("a", store_open=said)), "b": Probed("b", 0.1, node_facts("b"))}
    remote = NodeReport(("a", "b"), NODES, {}, probed)
    assert preflight._why_open(made, remote) == (said or "")


def test_check_says_it(tmp_path: Any) -> None:
    found = CheckedConfig(tmp_path).script(distributed={"nproc": 1, "devices": "cpu"})
    assert found["ports"].what.startswith("no port is open to other machines")


def test_nccl_has_a_port_of_its_own() -> None:
    (what,) = said({"script": "/code/train.py"}, node(gpus=2), backend="nccl").values()
    assert "NCCL's status: port 28028 of 127.0.0.1" in what
