"""Which rank runs where, on which device."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.values.machines import config, node, plan
from torchdeck.contract.inventory import Device
from torchdeck.plan.check import PlanError
from torchdeck.plan.placement import visible

COUNTS = st.lists(st.integers(1, 9), min_size=1, max_size=6)


def cluster(counts: list[int]) -> tuple[Any, ...]:
    return tuple(node(f"n{index}", gpus=count) for index, count in enumerate(counts))


@settings(deadline=None)
@given(COUNTS)
def test_ranks_are_cumulative_over_uneven_nodes(counts: list[int]) -> None:
    """Every rank exists once, a node's ranks follow each other, and nodes keep the config's order."""
    machines = cluster(counts)
    made = plan(config(distributed={"nodes": [machine.name for machine in machines]}), *machines)
    assert [rank.rank for rank in made.ranks] == list(range(sum(counts)))
    assert [(rank.node_rank, rank.local_rank) for rank in made.ranks] == [
        (index, local) for index, count in enumerate(counts) for local in range(count)
    ]
    assert made.world_size == sum(counts)
    assert [part.nproc for part in made.nodes] == counts


@settings(deadline=None)
@given(COUNTS, st.integers(1, 9))
def test_no_device_is_used_twice(counts: list[int], nproc: int) -> None:
    """Each (node, device) has at most one rank, and what is leased is exactly what ranks use."""
    machines = cluster(counts)
    asked = config(distributed={"nodes": [machine.name for machine in machines], "nproc": nproc})
    if nproc > min(counts):
        with pytest.raises(PlanError):
            plan(asked, *machines)
        return
    made = plan(asked, *machines)
    used = [(rank.node, rank.device) for rank in made.ranks]
    assert len(set(used)) == len(used)
    for part in made.nodes:
        assert list(part.devices) == [f"GPU-{part.name}-{index}" for index in range(nproc)]
        assert part.env["CUDA_VISIBLE_DEVICES"] == ",".join(part.devices)


def test_a_machine_without_gpus_runs_one_rank_on_the_cpu() -> None:
    """The default on a laptop: one rank, gloo, nothing to lease."""
    made = plan()
    assert [rank.device for rank in made.ranks] == ["cpu"]
    assert made.backend == "gloo"
    assert made.nodes[0].devices == ()
    assert made.nodes[0].env["CUDA_VISIBLE_DEVICES"] == ""


def test_single_takes_one_gpu_of_many() -> None:
    """DistributedStrategy single is one rank wherever it runs."""
    made = plan(config(distributed={"strategy": "single"}), node(gpus=4))
    assert [rank.device for rank in made.ranks] == ["cuda:0"]
    assert made.backend == "nccl"


def test_gpus_are_chosen_by_index_or_uuid_in_order() -> None:
    """Local rank 0 has the device that is named first."""
    made = plan(config(distributed={"devices": [2, "GPU-localhost-0"]}), node(gpus=3))
    assert [rank.device for rank in made.ranks] == ["cuda:2", "cuda:0"]
    assert made.nodes[0].devices == ("GPU-localhost-2", "GPU-localhost-0")


def test_cpu_can_be_chosen_where_there_are_gpus() -> None:
    """`devices = "cpu"` hides the GPUs from the ranks."""
    made = plan(config(distributed={"devices": "cpu", "nproc": 3}), node(gpus=1))
    assert {rank.device for rank in made.ranks} == {"cpu"}
    assert made.backend == "gloo"


@pytest.mark.parametrize(
    ("distributed", "gpus", "path", "words"),
    [
        ({"nproc": 3}, 2, "distributed.nproc", "3 ranks do not fit localhost: it has 2 GPUs"),
        ({"devices": [5]}, 2, "distributed.devices[0]", "no GPU 5"),
        ({"devices": [0]}, 0, "distributed.devices[0]", "no GPU 0"),
        ({"devices": [0, "GPU-localhost-0"]}, 2, "distributed.devices[1]", "listed twice"),
        ({"nodes": ["elsewhere"]}, 0, "distributed.nodes", "'elsewhere'"),
        ({"backend": "nccl"}, 0, "distributed.backend", "nccl"),
    ],
)
def test_what_does_not_fit_is_said(distributed: dict[str, Any], gpus: int, path: str, words: str) -> None:
    """Each misfit is a problem with the key that caused it, what is wrong, and what would be right."""
    with pytest.raises(PlanError) as caught:
        plan(config(distributed=distributed), node(gpus=gpus))
    (problem,) = caught.value.problems
    assert problem.path == path
    assert words in problem.wrong
    assert problem.right


def test_all_misfits_are_said_at_once() -> None:
    """Two wrong devices are two problems, not one and then the other."""
    with pytest.raises(PlanError) as caught:
        plan(config(distributed={"devices": [7, 8, 0]}), node(gpus=2))
    assert [problem.path for problem in caught.value.problems] == [
        "distributed.devices[0]",
        "distributed.devices[1]",
    ]


def test_nodes_with_and_without_gpus_are_not_mixed_by_accident() -> None:
    """A node whose driver is broken does not turn silently into CPU ranks among GPU ranks."""
    with pytest.raises(PlanError) as caught:
        plan(config(distributed={"nodes": ["a", "b"]}), node("a", gpus=2), node("b"))
    assert "b has none" in caught.value.problems[0].wrong


@pytest.mark.parametrize(
    ("variable", "left"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("2,0", [2, 0]),
        ("1,9,0", [1]),
        ("GPU-x-1", [1]),
        ("0,0", [0]),
        ("-1,0", []),
    ],
)
def test_visible_devices_are_read_as_cuda_reads_them(variable: str | None, left: list[int]) -> None:
    """Indices or UUIDs, in order, cut at the first that names no device."""
    devices = tuple(Device(index, f"GPU-x-{index}", "", 0) for index in range(3))
    assert [device.index for device in visible(devices, variable)] == left


def test_the_callers_visible_devices_narrow_auto() -> None:
    """`CUDA_VISIBLE_DEVICES=1 torchdeck …` uses GPU 1, as every other program would."""
    made = plan(config(), node(gpus=3), environ={"CUDA_VISIBLE_DEVICES": "1"})
    assert [rank.device for rank in made.ranks] == ["cuda:1"]
    with pytest.raises(PlanError) as caught:
        plan(config(distributed={"nproc": 2}), node(gpus=3), environ={"CUDA_VISIBLE_DEVICES": "1"})
    (found,) = caught.value.problems
    assert found.wrong == (
        "2 ranks do not fit localhost: it has 1 GPU for them (CUDA_VISIBLE_DEVICES selects these of 3)"
    )


def test_devices_without_uuid_go_by_pci_order() -> None:
    """Indices mean what nvidia-smi says, not CUDA's fastest-first order."""
    machine = node(gpus=1)
    bare = Device(0, "", "Tester", 0)
    machine = type(machine)(machine.name, machine.address, (bare,), machine.cpu_count)
    env = plan(config(), machine).nodes[0].env
    assert (env["CUDA_VISIBLE_DEVICES"], env["CUDA_DEVICE_ORDER"]) == ("0", "PCI_BUS_ID")
