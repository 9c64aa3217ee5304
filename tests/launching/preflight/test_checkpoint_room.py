"""Room for the checkpoints of a model that was traced, on this machine and on nodes."""

import dataclasses
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from support.values import machines
from support.values.machines import PYTHON
from support.values.node_facts import GIB, node_facts
from support.values.small_profile import BLOCK, HEAD, profile
from torchdeck.config.loader import config_from_dict
from torchdeck.config.schema import RunConfig
from torchdeck.contract.inventory import LOCALHOST, Inventory, NodeInfo
from torchdeck.contract.plan.launch_plan import CodeTree
from torchdeck.contract.plan.model_profile import ModelProfile
from torchdeck.launching.facts.probed_nodes import NodeReport
from torchdeck.launching.preflight.disk_space import profiled_bytes, share_of
from torchdeck.launching.preflight.model import check_model
from torchdeck.launching.prepare import ClusterFacts, plan_from
from torchdeck.nodes.probe.probing import Probed
from torchdeck.plan.check import Check
from torchdeck.plan.known import Known

PARAMETERS = HEAD + 2 * BLOCK
HOME = "/home/ann/.local/share/torchdeck"


def config(folder: Path, node: str, **tables: Any) -> RunConfig:
    (folder / "recipe.py").touch()
    asked = {
        "run": {"recipe": "recipe.py"},
        "training": {"steps": 1, "microbatch": 1},
        "distributed": {"nodes": [node], "nproc": 1, "devices": "cpu"},
        **tables,
    }
    return config_from_dict(asked, folder)


def disks(
    folder: Path, asked: RunConfig, free: int | None = None, model: ModelProfile | None = None
) -> list[Check]:
    """Checks of disks where the model was traced; of a node with `free` bytes, or of this machine."""
    name = asked.distributed.nodes[0]
    node = NodeInfo(name, "10.0.0.1", (), 8, remote=free is not None)
    remote = NodeReport()
    if free is not None:
        disk = {"path": HOME, "there": True, "writable": True, "total": 100 * GIB, "free": free}
        remote = NodeReport((name,), (node,), {}, {name: Probed(name, 0.1, node_facts(disks=[disk]))})
    found = ClusterFacts(
        Inventory((node,)), {name: PYTHON}, {}, CodeTree(), (), Known(model or profile()), remote=remote
    )
    checks = check_model(asked, plan_from(asked, found), found, folder / "home")
    return [check for check in checks if check.name == "disk"]


@pytest.mark.parametrize(
    ("training", "each"),
    [
        ({}, 12),
        ({"optimizer": "sgd", "momentum": 0.0}, 4),
        ({"optimizer": "sgd", "momentum": 0.9}, 8),
        ({"ema": 0.99}, 16),
    ],
)
def test_a_checkpoint_holds_weights_and_what_the_optimizer_keeps(
    training: dict[str, Any], each: int, tmp_path: Path
) -> None:
    """Four bytes of weight a parameter, and as many for each number beside it."""
    asked = config(tmp_path, LOCALHOST, training={"steps": 1, **training})
    assert profiled_bytes(asked, profile()) == each * PARAMETERS
    assert profiled_bytes(asked, profile(), Fraction(1, 3)) == -(-each * PARAMETERS // 3)


def test_a_node_without_room_for_one_checkpoint_is_refused(tmp_path: Path) -> None:
    """One byte decides; with room for what is kept nothing more is said."""
    asked = config(tmp_path, "n0", limits={"min_free_disk": 1000})
    one = 12 * PARAMETERS
    (check,) = disks(tmp_path, asked, 1000 + one - 1)
    assert (check.node, check.status) == ("n0", "failed")
    assert "a checkpoint of about 24.6 KiB" in check.what
    assert [check.status for check in disks(tmp_path, asked, 1000 + one)] == ["warning"]
    assert disks(tmp_path, asked, 1000 + 4 * one) == []


def test_what_is_known_without_the_model_is_said_once(tmp_path: Path) -> None:
    """A disk below limits.min_free_disk was refused before."""
    assert disks(tmp_path, config(tmp_path, "n0", limits={"min_free_disk": "1GiB"}), GIB - 1) == []


def test_this_machine_is_looked_at_too(tmp_path: Path) -> None:
    """A model of 2⁵⁰ parameters has no room on any disk; a small one has."""
    asked = config(tmp_path, LOCALHOST, limits={"min_free_disk": 0})
    assert disks(tmp_path, asked) == []
    small = profile()
    huge = dataclasses.replace(small.parameters[0], shape=(2**50,))
    (check,) = disks(tmp_path, asked, model=dataclasses.replace(small, parameters=(huge,)))
    assert (check.node, check.status) == (LOCALHOST, "failed")
    assert "a checkpoint of about 12288.0 TiB" in check.what


def test_each_disk_takes_the_parts_of_the_ranks_that_share_it() -> None:
    """All of a checkpoint in all; all of it on each disk where no one knows who shares which."""
    ranks = {"a": 5, "b": 1, "c": 1, "d": 1}
    asked = machines.config(distributed={"nodes": list(ranks)})
    made = machines.plan(asked, *(machines.node(name, gpus=count) for name, count in ranks.items()))
    disks = {"a": "a", "b": "b", "c": "b", "d": "b"}
    assert [share_of(node, disks, made) for node in disks] == [Fraction(5, 8)] + [Fraction(3, 8)] * 3
    assert {share_of(node, dict.fromkeys(disks, "a"), made) for node in disks} == {Fraction(1)}
    own = {node: share_of(node, {node: node for node in disks}, made) for node in disks}
    assert own == {name: Fraction(count, 8) for name, count in ranks.items()}
    assert share_of("a", {}, made) == share_of("a", {}, None) == Fraction(1)
    apart = {node: node for node in disks}
    copies = {node: share_of(node, apart, made, 1) for node in disks}
    assert copies == {"a": Fraction(6, 8), "b": Fraction(6, 8), "c": Fraction(2, 8), "d": Fraction(2, 8)}
    assert {share_of(node, apart, made, 9) for node in disks} == {Fraction(1)}
    assert {share_of(node, dict.fromkeys(disks, "a"), made, 1) for node in disks} == {Fraction(1)}


def test_a_spare_may_come_to_have_what_any_node_has() -> None:
    """Whose place it takes is not known."""
    asked = machines.config(distributed={"nodes": ["a", "b", "c"], "spare": 1, "nproc": 2})
    made = machines.plan(asked, *(machines.node(name) for name in ("a", "b", "c")))
    apart = {name: name for name in ("a", "b", "c")}
    assert share_of("c", apart, made) == Fraction(1, 2)
    assert share_of("c", apart, made, 1) == Fraction(1)


@pytest.mark.parametrize(
    ("shared", "status"),
    [({"n0": "n0", "n1": "n1"}, []), ({"n0": "n0", "n1": "n0"}, ["failed"] * 2), ({}, ["failed"] * 2)],
)
def test_nodes_on_one_disk_need_room_for_the_whole_there(
    shared: dict[str, str], status: list[str], tmp_path: Path
) -> None:
    """A byte less than a checkpoint takes is enough for half of one."""
    names = ["n0", "n1"]
    asked = config(
        tmp_path,
        "n0",
        distributed={"nodes": names, "nproc": 1, "devices": "cpu"},
        limits={"min_free_disk": 0},
    )
    free = 12 * PARAMETERS - 1
    nodes = tuple(NodeInfo(name, f"10.0.0.{at}", (), 8, remote=True) for at, name in enumerate(names))
    disk = {"path": HOME, "there": True, "writable": True, "total": 100 * GIB, "free": free}
    probed = {name: Probed(name, 0.1, node_facts(disks=[disk])) for name in names}
    found = ClusterFacts(
        Inventory(nodes),
        dict.fromkeys(names, PYTHON),
        {},
        CodeTree(),
        (),
        Known(profile()),
        remote=NodeReport(tuple(names), nodes, {}, probed),
    )
    checks = check_model(asked, plan_from(asked, found), found, tmp_path / "home", shared)
    assert [check.status for check in checks if check.name == "disk" and check.status == "failed"] == status
