"""Which GPUs of a monitored node are free."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from torchdeck.contract.inventory import Device
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.free_gpus import FreeGpu
from torchdeck.nodes.inventory.file import inventory_path
from torchdeck.nodes.probe.facts import Gpu, Gpus, GpuUser, NodeFacts
from torchdeck.nodes.probe.monitoring import LeaseHolder, NodeNow, NodeState, Sample
from torchdeck.use_cases.nodes import free_gpus
from torchdeck.use_cases.nodes.free_gpus import find_free_gpus, free_gpus_of

GIB = 2**30


def gpu(index: int, *, free: int = 79, users: tuple[GpuUser, ...] = ()) -> Gpu:
    name = "NVIDIA H100 80GB HBM3"
    return Gpu(index=index, uuid=f"GPU-{index}", name=name, memory=80 * GIB, free=free * GIB, users=users)


def now(*devices: Gpu, owners: dict[str, LeaseHolder] | None = None) -> NodeNow:
    gpus = Gpus(devices=devices, driver="", cuda="", error="")
    facts = NodeFacts.model_construct(gpu=gpus)
    sample = Sample(time=0.0, values={}, load=(0.0, 0.0, 0.0), owners=owners or {})
    return NodeNow("a", NodeState.UP, 0.0, facts=facts, sample=sample)


def test_gpus_with_a_process_a_run_or_memory_in_use_are_not_free() -> None:
    """Nor those that the inventory excludes."""
    busy = gpu(1, users=(GpuUser(pid=7, memory=None),))
    state = now(gpu(0), busy, gpu(2), gpu(3, free=40), gpu(4), owners={"GPU-2": LeaseHolder(run_id="r")})
    assert free_gpus_of(state, None) == (FreeGpu(0, "H100"), FreeGpu(4, "H100"))
    assert free_gpus_of(state, [4, 5]) == (FreeGpu(4, "H100"),)


def test_without_a_sample_leases_are_unknown_and_nothing_is_free() -> None:
    assert free_gpus_of(replace(now(gpu(0)), sample=None), None) == ()


def failing() -> list[dict[str, Any]]:
    raise OSError("nvidia-smi fails")


@pytest.mark.parametrize(
    ("lister", "free"),
    [(list, 1), (lambda: [{"uuid": "GPU-0", "pid": 7, "memory": None}], 0), (failing, 0), (None, 0)],
)
def test_gpus_here_with_a_process_are_not_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lister: Callable[[], object] | None, free: int
) -> None:
    """Nor those whose processes cannot be listed."""
    device = Device(0, "GPU-0", "NVIDIA H100 80GB HBM3", 80 * GIB, 79 * GIB)
    monkeypatch.setattr("torchdeck.nodes.this_machine.probe_gpus", lambda: (device,))
    monkeypatch.setattr("torchdeck.agent.gpus.gpu_user_lister", lambda: lister)
    found = find_free_gpus(Connector(tmp_path))
    assert sum(len(node.gpus) for node in found.nodes) == free


def test_a_node_that_cannot_be_asked_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inventory_path(tmp_path).write_text('version = 1\n[nodes.a]\naddress = "a"\n[nodes.b]\naddress = "b"\n')
    lost = NodeNow("b", NodeState.LOST, 0.0, OSError("no route"))
    monkeypatch.setattr(free_gpus, "_ask", lambda *_: {"a": now(gpu(0)), "b": lost})
    found = find_free_gpus(Connector(tmp_path))
    assert [node.name for node in found.nodes if node.name != "localhost"] == ["a"]
    assert found.problems == ("b: no route",)
