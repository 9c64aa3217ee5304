"""GPUs as nodes might report them, for tests by values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from support.values.node_facts import gpu, node_facts
from torchdeck.contract.inventory import Device
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.nodes.gpus.gpu_now import GpuNow, GpuProcess, NodeGpus, RunHold, gpus_of
from torchdeck.nodes.probe.facts import GpuProcessHere
from torchdeck.nodes.probe.monitoring import LeaseHolder, NodeNow, NodeState, Sample

GIB = 2**30
RUN = "20261122T000000Z-gpt-000000"


def device(index: int = 0, name: str = "NVIDIA H100 80GB HBM3") -> Device:
    return Device(index, f"GPU-{index}", name, 80 * GIB)


def process_here(pid: int = 4321, gpu: int = 0, **changes: Any) -> GpuProcessHere:
    """A process of another program, which the user may end; `changes` replaces what is said of it."""
    said = {
        "uuid": f"GPU-{gpu}",
        "pid": pid,
        "memory": 12 * GIB,
        "process": ProcessIdentity(pid, 77, "b").to_json(),
        "user": "bob",
        "command": "python train.py --lr 3e-4",
        "endable": True,
    }
    return GpuProcessHere.model_validate({**said, **changes})


def values_of(index: int, **changes: float) -> dict[str, float]:
    """Series of a GPU under load."""
    found = {
        "util": 93.0,
        "memory_used_bytes": 60.0 * GIB,
        "temperature_c": 66.0,
        "power_w": 640.0,
        "power_limit_w": 700.0,
        "clock_mhz": 1755.0,
        "memory_clock_mhz": 2619.0,
        "throttle_reasons": 4.0,
    }
    return {f"gpu{index}_{name}": value for name, value in {**found, **changes}.items()}


def gpu_now(
    *processes: GpuProcessHere,
    node: str = "node-a",
    index: int = 0,
    time: float | None = 100.0,
    lease: tuple[str, str] | None = None,
    runs: Mapping[str, RunHold] | None = None,
    is_connected: bool = True,
    **values: float,
) -> GpuNow:
    """One GPU with these processes; `values` replaces its series."""
    one = device(index)
    owners = {} if lease is None else {one.key: lease}
    series = values_of(index, **values)
    said = NodeGpus(node, (one,), time, series, owners, processes, "ann", is_connected)
    return gpus_of(said, runs or {})[0]


def free_gpu(**changes: Any) -> GpuNow:
    """The same, unused."""
    idle = {"util": 0.0, "memory_used_bytes": 0.0, "power_w": 71.0, "throttle_reasons": 1.0}
    return gpu_now(**{**idle, **changes})


def process_of(found: GpuNow) -> GpuProcess:
    """The only process on the GPU."""
    assert found.processes is not None
    (process,) = found.processes
    return process


def node_report(
    *processes: GpuProcessHere,
    node: str = "node-a",
    count: int = 2,
    heard: float = 100.0,
    leases: Mapping[str, str] | None = None,
    state: NodeState = NodeState.UP,
    **values: float,
) -> NodeNow:
    """A monitored node with GPUs under load; `leases` are devices and the runs that have them."""
    gpus = [gpu(index) for index in range(count)]
    facts = node_facts(node, gpu={"devices": gpus, "driver": "550", "cuda": "12.4", "error": ""})
    series: dict[str, float] = {}
    for index in range(count):
        series.update(values_of(index, **values))
    owners = {key: LeaseHolder(run_id=run_id, name="gpt") for key, run_id in (leases or {}).items()}
    sample = Sample(time=heard, values=series, load=(0.0, 0.0, 0.0), owners=owners)
    return NodeNow(node, state, heard, None, heard, facts, sample, (), processes)
