"""Resources of the machines of a job: plain values, gathered before a plan is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from torchdeck.contract.plan.environment import PlannedEnvironment

LOCALHOST = "localhost"
"""This machine, which is probed and never described."""
Version = tuple[int, ...]


@dataclass(frozen=True)
class Device:
    """One GPU as the driver names it."""

    index: int
    """As nvidia-smi counts (PCI bus order)."""
    uuid: str
    """`GPU-…`; empty if the driver did not report it."""
    name: str
    memory_bytes: int
    """Total; 0 if unknown."""
    free_bytes: int | None = None
    """Free when probed; None if unknown."""

    @property
    def key(self) -> str:
        """Key by which the device is leased and made visible: its UUID, else its index."""
        return self.uuid or str(self.index)


@dataclass(frozen=True)
class NodeInfo:
    """One machine."""

    name: str
    """As in the config, and in file names."""
    address: str
    """Address that the other nodes connect to."""
    devices: tuple[Device, ...]
    cpu_count: int
    """Cores that this user's processes may use."""
    memory_bytes: int = 0
    """Total main memory; 0 if unknown."""
    free_bytes: int | None = None
    """Main memory that was free when probed; None if unknown."""
    described: bool = False
    """Known only from the description in a run file; it was never probed."""
    interface: str = ""
    """Network interface for its ranks to connect to other nodes; empty: gloo and NCCL choose."""
    remote: bool = False
    """Whether it is connected to over SSH: paths and variables of this machine mean nothing there."""
    working_dir: str = ""
    """Folder on a remote node that its ranks start in; empty: the run's own copy of the code."""
    max_ranks: int | None = None
    """Most ranks that a run starts on it, whatever the run requests; None: no limit."""


@dataclass(frozen=True)
class Inventory:
    """Machines that a config may name."""

    nodes: tuple[NodeInfo, ...]

    def __iter__(self) -> Iterator[NodeInfo]:
        return iter(self.nodes)

    def find(self, name: str) -> NodeInfo | None:
        """Return the node called `name`, if it is in the inventory."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> Mapping[str, NodeInfo]:
        return {node.name: node for node in self.nodes}


@dataclass(frozen=True)
class InterpreterFacts:
    """Capabilities of a Python on a node, found without importing torch."""

    executable: str
    """As it is to be called; a link into a virtual environment is not resolved."""
    python: str = ""
    """Version, like `3.11.7`; empty if it could not be run."""
    torch: str | None = None
    """Version of the torch package, like `2.13.0+cpu`; None if there is none."""
    numpy: str | None = None
    error: str = ""
    """Why nothing is known about it; empty if all is well."""
    deepspeed: str | None = None
    """As `numpy`; None also if it was not asked for."""
    environment: PlannedEnvironment | None = None
    """The environment that ranks use instead, made for this Python; the packages are then those in it."""
    is_locked: bool = True
    """Whether all packages of that environment are known."""
    fix: str = ""
    """How to correct `error`; empty if that depends on where the interpreter is named."""

    @property
    def torch_version(self) -> Version | None:
        """Return (major, minor) of torch, for gating flags; None without torch."""
        return None if self.torch is None else major_minor(self.torch)


@dataclass(frozen=True)
class UvFacts:
    """uv on a node, and the environments made with it."""

    path: str | None
    """None: uv is not installed."""
    platform: str
    """Platform for which packages are installed there."""
    made: Mapping[str, tuple[str | None, str | None]]
    """Key of each complete environment → versions of its torch and numpy."""


def major_minor(version: str) -> Version:
    """Return (2, 13) for `2.13.0+cpu` or `2.13.0a0+git1`; (0, 0) for text that is no version."""
    numbers = version.partition("+")[0].split(".")[:2]
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        return (0, 0)
    return (int(numbers[0]), int(numbers[1]))
