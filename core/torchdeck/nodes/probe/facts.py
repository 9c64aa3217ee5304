"""What a node said of itself, checked: whatever does not fit is refused, not guessed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from torchdeck.contract.inventory import Device, InterpreterFacts, NodeInfo
from torchdeck.nodes.probe.probe_session import ProbeError

Count = Annotated[int, Field(ge=0, le=2**63)]
Text = Annotated[str, Field(max_length=4096)]


class Said(BaseModel):
    """Something a node said; further fields, of a later version, are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class System(Said):
    host: Text
    os: Text
    kernel: Text
    machine: Text
    boot: Text
    user: Text


class Cpu(Said):
    cores: Count
    usable: Count
    """Cores that this user's processes may use."""
    model: Text
    load: float
    """Processes that ran or waited, over a minute."""
    bf16: tuple[Text, ...] | None = None
    """Instructions for bf16 that it has, by the kernel's names; None where it is no x86, or did not say."""


class Memory(Said):
    """Bytes."""

    total: Count
    free: Count
    shm_total: Count
    shm_free: Count


class Disk(Said):
    path: Text
    there: bool
    """Else it is the nearest folder around `path` that was looked at."""
    writable: bool
    total: Count
    free: Count
    """Bytes."""
    inodes: Count | None = None
    """Files that can still be made there; None where it has no such limit, or did not say."""


class GpuUser(Said):
    pid: Count
    memory: Count | None


class Gpu(Said):
    index: Count
    uuid: Text
    name: Text
    memory: Count
    free: Count | None
    """Bytes; None where the driver does not tell."""
    users: tuple[GpuUser, ...] = ()


class Gpus(Said):
    devices: tuple[Gpu, ...]
    driver: Text
    cuda: Text
    """The newest CUDA that the driver can."""
    error: Text


class Deep(Said):
    """What torch says of itself; `error` when it cannot be imported."""

    error: Text
    torch: Text | None = None
    cuda: Text | None = None
    nccl: Text | None = None
    devices: Count = 0
    gloo: bool = False


class Python(Said):
    executable: Text
    version: Text
    torch: Text | None
    numpy: Text | None
    deepspeed: Text | None
    nccl: Text | None
    cuda: Text | None
    """What torch was built for."""
    error: Text
    chosen: bool
    """The one that runs would use."""
    deep: Deep | None = None


class Interface(Said):
    name: Text
    addresses: tuple[Text, ...]
    up: bool
    speed: Count | None
    """Mbit/s."""


class Route(Said):
    peer: Text
    interface: Text
    address: Text
    error: Text


class OwnName(Said):
    name: Text
    resolves: bool
    slow: bool
    seconds: float
    error: Text


class RunHere(Said):
    """A run that has processes on the node."""

    run_id: Text
    directory: Text
    processes: tuple[Count, ...]
    ranks: tuple[Count, ...]
    user: Text
    supervised: bool
    """An agent or shim of it lives there; else its processes are orphans."""


class Cleaned(Said):
    """What came of ending processes of runs."""

    ended: dict[str, Count]
    """Run → processes that got a signal."""
    kept: tuple[Text, ...]
    """Runs that are looked after."""
    left: Count
    """Processes that do not end."""


class NodeFacts(Said):
    """One node, as it was when it was asked."""

    time: float
    home: Text
    system: System
    cpu: Cpu
    memory: Memory
    disks: tuple[Disk, ...]
    gpu: Gpus
    pythons: tuple[Python, ...]
    interfaces: tuple[Interface, ...]
    routes: tuple[Route, ...]
    own_name: OwnName
    runs: tuple[RunHere, ...]
    kills_after_logout: bool

    @property
    def python(self) -> Python:
        """The Python that runs would use."""
        return next(python for python in self.pythons if python.chosen)

    @property
    def orphans(self) -> tuple[RunHere, ...]:
        """Runs that nobody looks after any more, and whose processes live."""
        return tuple(run for run in self.runs if not run.supervised)


def facts_from(node: str, answer: Mapping[str, Any]) -> NodeFacts:
    """The facts in a node's answer. Raises ProbeError, naming what does not fit."""
    try:
        facts = NodeFacts.model_validate(answer)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ProbeError(f"{node} said something impossible of itself: {where}: {first['msg']}") from error
    if not any(python.chosen for python in facts.pythons):
        raise ProbeError(f"{node} did not say which Python answers")
    return facts


def node_info(name: str, address: str, facts: NodeFacts) -> NodeInfo:
    """The node as a plan needs it; `address` is what its peers reach it by."""
    return NodeInfo(
        name=name,
        address=address,
        devices=tuple(
            Device(gpu.index, gpu.uuid, gpu.name, gpu.memory, gpu.free) for gpu in facts.gpu.devices
        ),
        cpu_count=max(1, facts.cpu.usable),
        memory_bytes=facts.memory.total,
        free_bytes=facts.memory.free,
    )


def interpreter_facts(facts: NodeFacts) -> InterpreterFacts:
    """The node's Python as a plan needs it."""
    python = facts.python
    return InterpreterFacts(
        executable=python.executable,
        python=python.version,
        torch=python.torch,
        numpy=python.numpy,
        error=python.error,
        deepspeed=python.deepspeed,
    )
