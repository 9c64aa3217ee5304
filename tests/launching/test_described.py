"""Machines as described by a run file."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.config.machines.cluster import Cluster
from torchdeck.config.values.gpu_models import gpu_model, gpu_names
from torchdeck.launching.facts.node_facts import inventory_from


def test_a_cluster_of_two_kinds() -> None:
    """Every machine by name, with devices by index, known memory, and what was written."""
    cluster = Cluster.model_validate(
        {
            "nodes": [
                {"name": "gpu[0-1]", "gpus": 8, "gpu": "H100", "address": "10.0.0.[1-2]", "cores": 96},
                {"name": "old", "gpus": 4, "devices": [1, 3], "memory": "32GiB", "host_memory": "1TB"},
                {"name": "cpu"},
            ]
        }
    )
    first, second, old, cpu = inventory_from(cluster)
    assert (first.name, first.address, first.cpu_count) == ("gpu0", "10.0.0.1", 96)
    assert (second.name, second.address) == ("gpu1", "10.0.0.2")
    assert [device.index for device in first.devices] == list(range(8))
    assert {device.memory_bytes for device in first.devices} == {81559 * 2**20}
    assert [(device.index, device.key, device.memory_bytes) for device in old.devices] == [
        (1, "1", 32 * 2**30),
        (3, "3", 32 * 2**30),
    ]
    assert (old.address, old.cpu_count, old.memory_bytes) == ("old", 4, 10**12)
    assert (cpu.devices, cpu.cpu_count, cpu.memory_bytes) == ((), 1, 0)
    assert all(node.described and node.free_bytes is None for node in (first, second, old, cpu))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 9)), min_size=1, max_size=5))
def test_every_machine_is_there_once(kinds: list[tuple[int, int]]) -> None:
    """As many as the ranges say, each found by its name, each with its GPUs."""
    cluster = Cluster.model_validate(
        {
            "nodes": [
                {"name": f"k{kind}-[1-{count}]", "gpus": gpus} for kind, (count, gpus) in enumerate(kinds)
            ]
        }
    )
    inventory = inventory_from(cluster)
    assert len({node.name for node in inventory}) == sum(count for count, _ in kinds)
    for kind, (count, gpus) in enumerate(kinds):
        node = inventory.find(f"k{kind}-{count}")
        assert node is not None
        assert len(node.devices) == gpus


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("h100", "H100"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA A100-SXM4-40GB", "A100-40GB"),
        ("a100 80gb", "A100-80GB"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("Tesla T4", "T4"),
    ],
)
def test_gpus_by_what_people_and_drivers_call_them(spelling: str, name: str) -> None:
    """Maker, case, blanks and dashes do not count."""
    found = gpu_model(spelling)
    assert found is not None
    assert found.name == name


def test_what_is_not_known_is_not_guessed() -> None:
    """An A100 has 40 or 80 GB; every listed name is one."""
    assert gpu_model("A100") is None
    assert gpu_model("") is None
    assert all(gpu_model(name) is not None for name in gpu_names())
    assert len(set(gpu_names())) == len(gpu_names())
