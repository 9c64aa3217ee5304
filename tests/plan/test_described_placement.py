"""Plans for machines that are only described."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.values.machines import PYTHON, byte_gpt
from torchdeck.contract.plan.launch_plan import CodeTree, LaunchPlan
from torchdeck.launching.facts.node_facts import inventory_from
from torchdeck.plan.check import PlanError
from torchdeck.plan.planner import make_plan

SHELL = {"CUDA_VISIBLE_DEVICES": "1", "OMP_NUM_THREADS": "77", "PYTHONPATH": "/laptop"}


def planned(*nodes: dict[str, Any], **distributed: Any) -> LaunchPlan:
    asked = byte_gpt(cluster={"nodes": list(nodes)}, distributed=distributed)
    inventory = inventory_from(asked.cluster)
    interpreters = {node.name: PYTHON for node in inventory}
    return make_plan(asked, inventory, CodeTree(), interpreters=interpreters, environ=SHELL)


@st.composite
def clusters(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Machines of several kinds, each with some of its GPUs."""
    kinds = draw(st.lists(st.integers(1, 8), min_size=1, max_size=4))
    return [
        {
            "name": f"k{kind}-[1-{draw(st.integers(1, 3))}]",
            "gpus": gpus,
            "devices": draw(st.lists(st.integers(0, gpus - 1), min_size=1, unique=True)),
        }
        for kind, gpus in enumerate(kinds)
    ]


@settings(deadline=None)
@given(clusters())
def test_every_rank_once_and_every_device_at_most_once(nodes: list[dict[str, Any]]) -> None:
    """Ranks count up over nodes in the file's order, on the devices that may be used, in their order."""
    made = planned(*nodes)
    assert [rank.rank for rank in made.ranks] == list(range(made.world_size))
    assert len({(rank.node, rank.device) for rank in made.ranks}) == made.world_size
    assert [rank.node_rank for rank in made.ranks] == sorted(rank.node_rank for rank in made.ranks)
    allowed = {str(number["name"]).partition("-")[0]: number["devices"] for number in nodes}
    for part in made.nodes:
        ours = [rank for rank in made.ranks if rank.node == part.name]
        assert [rank.local_rank for rank in ours] == list(range(part.nproc))
        indices = allowed[part.name.partition("-")[0]]
        assert [rank.device for rank in ours] == [f"cuda:{index}" for index in indices]
        assert part.env["CUDA_VISIBLE_DEVICES"] == ",".join(map(str, indices))


def test_this_shells_environment_means_nothing_there() -> None:
    """Neither its devices nor its threads and paths reach machines that no one looked at."""
    made = planned({"name": "a", "gpus": 4, "cores": 64})
    (part,) = made.nodes
    assert made.world_size == 4
    assert part.env["OMP_NUM_THREADS"] == "16"
    assert "/laptop" not in part.env["PYTHONPATH"]
    assert part.env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_groups_of_hsdp_are_decided_and_warned_of() -> None:
    """A node's ranks by itself; what is asked for is told to the ranks, and crossing nodes is said."""
    nodes = {"name": "n[1-2]", "gpus": 4}
    for asked, shard in ((None, 4), (2, 2), (8, 8)):
        hsdp = {} if asked is None else {"hsdp": {"shard": asked}}
        made = planned(nodes, strategy="hsdp", **hsdp)
        assert f'"hsdp":{{"shard":{shard}}}' in made.nodes[0].env["TORCHDECK_RECIPE"]
        assert any("groups that shard" in warning for warning in made.warnings) == (shard == 8)
    with pytest.raises(PlanError, match="8 ranks cannot form groups of 3"):
        planned(nodes, strategy="hsdp", hsdp={"shard": 3})


def test_some_devices_of_every_node() -> None:
    """distributed.devices chooses by index on each, and refuses what one of them has not."""
    kinds = ({"name": "a", "gpus": 4}, {"name": "b", "gpus": 2})
    made = planned(*kinds, devices=[1, 0])
    assert [rank.device for rank in made.ranks] == ["cuda:1", "cuda:0"] * 2
    with pytest.raises(PlanError, match="b has no GPU 3"):
        planned(*kinds, devices=[3])


def test_nodes_that_are_crowded_alike_are_one_warning() -> None:
    """Thousands of lines would hide all others."""
    nodes: list[dict[str, Any]] = [
        {"name": "a[0-19]", "cores": 2},
        {"name": "b[0-1]"},
        {"name": "c", "cores": 3},
    ]
    assert planned(*nodes, nproc=3).warnings == (
        "3 ranks share 2 cores on a0 and 19 more nodes: each gets one thread",
        "3 ranks share 1 core on b0 and 1 more node: each gets one thread",
    )
