"""Nodes with which nothing can be planned: each cause told once, the other nodes looked at all the same."""

from pathlib import Path
from typing import Any

import pytest

from support.values.node_facts import gpu, node_facts
from torchdeck.config.loader import config_from_dict
from torchdeck.config.problems import Problem
from torchdeck.config.schema import RunConfig
from torchdeck.contract.inventory import Inventory
from torchdeck.contract.plan.launch_plan import CodeTree
from torchdeck.launching.checked_plan import all_checks
from torchdeck.launching.facts.node_facts import probe_all_nodes
from torchdeck.launching.facts.probed_nodes import NodeReport, placeholder_nodes
from torchdeck.launching.prepare import ClusterFacts, cluster_facts
from torchdeck.nodes.inventory.file import inventory_path
from torchdeck.nodes.inventory.schema import NodeInventory
from torchdeck.nodes.probe.probe_session import ClockOffset
from torchdeck.nodes.probe.probing import Probed
from torchdeck.nodes.ssh.host_keys import Verdict
from torchdeck.plan.check import Check

CLOCK = ClockOffset(0.0, 0.001)
MACHINE_CHECKS = {"clock", "shared memory", "host name", "login", "interpreter", "torch"}
AWAY = Probed("n2", 12.0, error="node n2: 10.0.0.2, port 22: no one answers")
KEY_UNKNOWN = Probed("n2", 0.1, error="node n2: no one has said yet", host_key=Verdict.UNKNOWN)
KEY_CHANGED = Probed("n2", 0.1, error="node n2: it is another one than before", host_key=Verdict.CHANGED)
KEY_REVOKED = Probed("n2", 0.1, error="node n2: its host key is revoked", host_key=Verdict.REVOKED)
NO_PYTHON = Probed(
    "n2",
    0.5,
    error="node n2: its Python ended without an answer: sh: /nope/bin/python: not found",
    fix="`torchdeck nodes edit n2 --venv …` names another",
)


def up(name: str, **changes: Any) -> Probed:
    """A node that answers, each by an address of its own."""
    address = f"10.0.0.{name[1:]}"
    interfaces = [{"name": "eth0", "addresses": [address], "up": True, "speed": 1000}]
    routes = [{"peer": "10.0.0.9", "interface": "eth0", "address": address, "error": ""}]
    said = {"interfaces": interfaces, "routes": routes, **changes}
    return Probed(name, 0.1, node_facts(name, **said), CLOCK)


def looked_at(
    folder: Path, entry: dict[str, Any], second: Probed, **distributed: Any
) -> tuple[list[Check], tuple[Problem, ...]]:
    """The checks of a run on n1, which is well, and on n2; and the problems beside them."""
    (folder / "train.py").write_text("")
    asked = {"run": {"script": "train.py"}, "distributed": {"nodes": ["n1", "n2"], **distributed}}
    config: RunConfig = config_from_dict(asked, folder)
    node_inventory = NodeInventory.model_validate(
        {"nodes": {"n1": {"address": "10.0.0.1"}, "n2": {"address": "10.0.0.2", **entry}}}
    )
    probed = {"n1": up("n1"), "n2": second}
    remote = probe_all_nodes(("n1", "n2"), node_inventory, probed)
    found = ClusterFacts(
        Inventory(remote.nodes), dict(remote.interpreters), {}, CodeTree(), (), remote=remote
    )
    checks, misfit, *_ = all_checks(config, found, folder / "home")
    assert misfit is not None
    return checks, misfit.problems


@pytest.mark.parametrize(
    ("entry", "second", "check", "said", "fix"),
    [
        ({}, AWAY, "ssh", "no one answers", "`torchdeck nodes probe n2`"),
        ({}, KEY_UNKNOWN, "ssh", "no one has said", "asks you to verify it"),
        (
            {},
            KEY_CHANGED,
            "ssh",
            "another one",
            "then `torchdeck nodes trust n2` shows and saves the new one",
        ),
        ({}, KEY_REVOKED, "ssh", "is revoked", "a revoked key cannot be trusted"),
        ({"venv": "/nope"}, NO_PYTHON, "interpreter", "/nope/bin/python: not found", "--venv …"),
        ({"interface": "eth9"}, up("n2"), "address", "no interface 'eth9': it has eth0", "--interface …"),
        ({}, up("n2", routes=[]), "address", "no route to the other nodes", "--training-address"),
        ({"training_address": "10.0.0.1"}, up("n2"), "address", "same address as n1", "--training-address"),
        (
            {"devices": [0, 1]},
            up("n2"),
            "devices",
            "has no GPU 0, 1, which the node inventory",
            "--unset devices",
        ),
        (
            {"devices": [0, 1]},
            up("n2", gpu={"devices": [], "driver": "", "cuda": "", "error": "the driver is gone"}),
            "devices",
            "the driver is gone",
            "nvidia-smi",
        ),
        (
            {"devices": [0, 7]},
            up("n2", gpu={"devices": [gpu(0)], "driver": "5", "cuda": "12", "error": ""}),
            "devices",
            "has no GPU 7, which the node inventory names: it has 0",
            "--devices …",
        ),
    ],
)
def test_each_cause_is_one_failed_check_of_its_node(
    tmp_path: Path, entry: dict[str, Any], second: Probed, check: str, said: str, fix: str
) -> None:
    checks, problems = looked_at(tmp_path, entry, second)
    (wrong,) = [each for each in checks if each.status == "failed"]
    assert (wrong.node, wrong.name) == ("n2", check)
    assert said in wrong.what
    assert fix in wrong.fix
    assert not wrong.what.startswith("node n2")
    assert problems == ()  # it is told once
    well = {each.name for each in checks if each.node == "n1" and each.status == "ok"}
    assert {*MACHINE_CHECKS, "ssh", "devices", "address"} <= well
    reached = {each.name for each in checks if each.node == "n2" and each.status == "ok"}
    assert ("ssh" in reached) == (check != "ssh")
    assert (reached >= MACHINE_CHECKS) == (check not in ("ssh", "interpreter"))


def test_gpus_of_the_book_may_be_away_where_the_run_asks_for_the_cpu() -> None:
    node_inventory = NodeInventory.model_validate({"nodes": {"n1": {"address": "a", "devices": [0]}}})
    probed = {"n1": up("n1")}
    assert probe_all_nodes(("n1",), node_inventory, probed, with_gpus=False).faults == ()
    assert [fault.check for fault in probe_all_nodes(("n1",), node_inventory, probed).faults] == ["devices"]


def test_several_faults_are_all_told(tmp_path: Path) -> None:
    """Of the same node, too."""
    checks, _ = looked_at(tmp_path, {"interface": "eth9", "devices": [3]}, up("n2", kills_after_logout=True))
    wrong = [(each.node, each.name) for each in checks if each.status == "failed"]
    assert wrong == [("n2", "devices"), ("n2", "address"), ("n2", "login")]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"backend": "nccl"}, ['"nccl" needs GPUs, but the ranks run on the CPU']),
        ({"devices": [3]}, ["n1 has no GPU 3"]),
        ({"nproc": 2, "devices": "cpu"}, []),
    ],
)
def test_what_is_wrong_with_the_run_file_is_told_beside_a_node_at_fault(
    tmp_path: Path, asked: dict[str, Any], said: list[str]
) -> None:
    """As if the node were like the other; nothing is said of what it would be taken for."""
    checks, problems = looked_at(tmp_path, {}, AWAY, **asked)
    assert [(each.node, each.name) for each in checks if each.status == "failed"] == [("n2", "ssh")]
    assert [problem.wrong for problem in problems] == said


def test_nothing_is_guessed_where_no_node_is_well() -> None:
    node_inventory = NodeInventory.model_validate({"nodes": {"n2": {"address": "10.0.0.2"}}})
    asked = {"run": {"script": "t.py"}, "distributed": {"nodes": ["n2"], "backend": "nccl"}}
    remote = probe_all_nodes(("n2",), node_inventory, {"n2": AWAY})
    assert placeholder_nodes(config_from_dict(asked, "/code"), remote, Inventory(()), {}) is None


def test_an_unknown_node_is_told_with_the_nearest_of_the_node_book(
    tmp_path: Path, torchdeck_home: Path
) -> None:
    torchdeck_home.mkdir(exist_ok=True)
    inventory_path(torchdeck_home).write_text("[nodes.gpu1]\naddress = 'x'\n[nodes.other]\naddress = 'y'\n")
    (tmp_path / "train.py").write_text("")
    for name, right in (("gpu11", "gpu1, or `torchdeck nodes add gpu11"), ("zz", "`torchdeck nodes add zz")):
        asked = {"run": {"script": "train.py"}, "distributed": {"nodes": [name], "devices": "cpu"}}
        (problem,) = cluster_facts(config_from_dict(asked, tmp_path)).problems
        assert problem.wrong == f"unknown node {name!r}"
        assert problem.right.startswith(right)


def test_nothing_is_in_the_way_of_nodes_that_are_well() -> None:
    node_inventory = NodeInventory.model_validate(
        {"nodes": {name: {"address": name} for name in ("n1", "n2")}}
    )
    found: NodeReport = probe_all_nodes(
        ("n1", "n2"), node_inventory, {name: up(name) for name in node_inventory.nodes}
    )
    assert found.in_the_way == ()
    assert [node.address for node in found.nodes] == ["10.0.0.1", "10.0.0.2"]
