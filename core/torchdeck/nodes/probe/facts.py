"""Validated facts of a node: whatever does not match is rejected, not guessed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from torchdeck.contract.inventory import Device, InterpreterFacts, NodeInfo, UvFacts
from torchdeck.nodes.probe.probe_session import ProbeError

Count = Annotated[int, Field(ge=0, le=2**63)]
Text = Annotated[str, Field(max_length=4096)]


class NodeData(BaseModel):
    """Data from a node; further fields, of a later version, are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class System(NodeData):
    host: Text
    os: Text
    kernel: Text
    machine: Text
    boot: Text
    user: Text


class Cpu(NodeData):
    cores: Count
    usable: Count
    """Cores that this user's processes may use."""
    model: Text
    load: float
    """Processes that ran or waited, over a minute."""
    bf16: tuple[Text, ...] | None = None
    """Supported bf16 instructions, by the kernel's names; None if it is not x86, or did not report them."""


class Memory(NodeData):
    """Bytes."""

    total: Count
    free: Count
    shm_total: Count
    shm_free: Count


class Disk(NodeData):
    path: Text
    there: bool
    """Whether `path` exists; else this is its nearest existing parent folder."""
    writable: bool
    total: Count
    free: Count
    """Bytes."""
    inodes: Count | None = None
    """Number of files that can still be created there; None without such a limit, or if not reported."""


class GpuUser(NodeData):
    pid: Count
    memory: Count | None


class Gpu(NodeData):
    index: Count
    uuid: Text
    name: Text
    memory: Count
    free: Count | None
    """Bytes; None if the driver does not report it."""
    users: tuple[GpuUser, ...] = ()


class Gpus(NodeData):
    devices: tuple[Gpu, ...]
    driver: Text
    cuda: Text
    """Newest CUDA version that the driver supports."""
    error: Text


class Deep(NodeData):
    """Facts reported by torch itself; `error` if it cannot be imported."""

    error: Text
    torch: Text | None = None
    cuda: Text | None = None
    nccl: Text | None = None
    devices: Count = 0
    gloo: bool = False


class Python(NodeData):
    executable: Text
    version: Text
    torch: Text | None
    numpy: Text | None
    deepspeed: Text | None
    nccl: Text | None
    cuda: Text | None
    """CUDA version torch was built for."""
    error: Text
    chosen: bool
    """Whether runs would use this one."""
    deep: Deep | None = None


class Uv(NodeData):
    path: Text | None = None
    platform: Text = ""
    made: dict[Text, tuple[Text | None, Text | None]] = Field(default={}, max_length=4096)


class Interface(NodeData):
    name: Text
    addresses: tuple[Text, ...]
    up: bool
    speed: Count | None
    """Mbit/s."""


class Route(NodeData):
    peer: Text
    interface: Text
    address: Text
    error: Text


class OwnName(NodeData):
    name: Text
    resolves: bool
    slow: bool
    seconds: float
    error: Text


class RunHere(NodeData):
    """Run that has processes on the node."""

    run_id: Text
    directory: Text
    processes: tuple[Count, ...]
    ranks: tuple[Count, ...]
    user: Text
    supervised: bool
    """Whether an agent or shim of it is alive there; else its processes are orphans."""


class GpuProcessHere(NodeData):
    """Process that uses a GPU of the node."""

    uuid: Text
    """UUID of the GPU."""
    pid: Count
    memory: Count | None = None
    """Bytes; None if the driver does not report it."""
    process: dict[Text, Text | Count] | None = Field(default=None, max_length=8)
    """Its identity; None if it is not visible there, as from within a container."""
    user: Text = ""
    command: Text = ""
    run_id: Text = ""
    """The run it belongs to; empty if to none that is visible."""
    endable: bool = False
    """Whether the user of the session may end it."""
    graphics: bool = False
    """Whether it only draws."""


class ProcessEnd(NodeData):
    """Result of ending a process."""

    outcome: Literal["ended", "killed", "gone", "refused", "left"]
    """`killed`: it ignored SIGTERM; `gone`: it had ended before; `left`: it does not end."""
    why: Text = ""
    """Reason for `refused` and `left`, as a sentence."""


class Cleaned(NodeData):
    """Result of an orphan cleanup."""

    ended: dict[str, Count]
    """Run → processes that were sent a signal."""
    kept: tuple[Text, ...]
    """Runs that are supervised."""
    left: Count
    """Processes that do not exit."""


class Limit(NodeData):
    """Limit of a process; None: none."""

    soft: Count | None
    hard: Count | None
    """Up to which a process may raise `soft` itself."""


class Limits(NodeData):
    open_files: Limit
    locked_memory: Limit
    """Bytes."""


class NodeFacts(NodeData):
    """Facts of one node at the time of the probe."""

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
    uv: Uv = Uv()
    limits: Limits | None = None
    infiniband: tuple[Text, ...] | None = Field(default=None, max_length=256)
    """InfiniBand and RoCE devices; None: not reported."""
    store_open: Text | None = None
    """Why its kernel cannot close a run's store to other users; empty if it can, None: not reported."""
    variables: dict[Text, Text] = Field(default={}, max_length=256)
    """Variables of NCCL, gloo and torch in the environment of a session."""

    @property
    def python(self) -> Python:
        """The Python that runs would use."""
        return next(python for python in self.pythons if python.chosen)

    @property
    def orphans(self) -> tuple[RunHere, ...]:
        """Runs without supervision that have live processes."""
        return tuple(run for run in self.runs if not run.supervised)


def facts_from(node: str, answer: Mapping[str, Any]) -> NodeFacts:
    """Parse the facts in a node's answer. Raises ProbeError, naming invalid fields."""
    try:
        facts = NodeFacts.model_validate(answer)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ProbeError(f"{node} reported invalid facts: {where}: {first['msg']}") from error
    if not any(python.chosen for python in facts.pythons):
        raise ProbeError(f"{node} did not report which Python answers")
    return facts


def node_info(name: str, address: str, facts: NodeFacts) -> NodeInfo:
    """Return the node as a plan needs it; `address` is the one its peers use."""
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


def uv_facts(facts: NodeFacts) -> UvFacts:
    """Return the node's uv as a plan needs it."""
    return UvFacts(facts.uv.path, facts.uv.platform, facts.uv.made)


def interpreter_facts(facts: NodeFacts) -> InterpreterFacts:
    """Return the node's Python as a plan needs it."""
    python = facts.python
    return InterpreterFacts(
        executable=python.executable,
        python=python.version,
        torch=python.torch,
        numpy=python.numpy,
        error=python.error,
        deepspeed=python.deepspeed,
    )
