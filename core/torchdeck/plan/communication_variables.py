"""Variables of NCCL, gloo and torch that contradict each other, the node or the plan.

Names and meanings: NCCL user guide, "Environment Variables"
(https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html), torch's ProcessGroupNCCL.hpp and
"Torch Distributed environment variables" (https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html),
and gloo's transport/tcp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

LOOPBACK = "lo"
_ON = frozenset({"1", "true", "yes", "y", "on", "t"})


@dataclass(frozen=True)
class NodeSetting:
    """One node's variables, and what they must fit."""

    variables: Mapping[str, str]
    """As its ranks get them."""
    backend: str
    """`nccl` or `gloo`."""
    nodes: int = 1
    """Nodes of the run."""
    gpus: int = 0
    """GPUs that the run uses on the node."""
    interfaces: frozenset[str] | None = None
    """Network interfaces of the node; None: unknown."""
    infiniband: tuple[str, ...] | None = None
    """InfiniBand and RoCE devices of the node (/sys/class/infiniband); None: unknown."""
    nvlink: bool | None = None
    """Whether its GPUs are connected by NVLink; None: unknown."""

    def on(self, name: str) -> bool:
        """Return whether a switch is on."""
        return self.variables.get(name, "").strip().lower() in _ON

    def has(self, name: str) -> bool:
        """Return whether a variable is set and not empty."""
        return bool(self.variables.get(name, "").strip())


@dataclass(frozen=True)
class Contradiction:
    """Something wrong with the variables."""

    what: str
    fix: str
    fatal: bool = False
    """Ranks cannot connect to each other; else they are slower than they could be, or a variable has no
    effect.
    """


Rule = Callable[[NodeSetting], Iterator[Contradiction]]


def contradictions(setting: NodeSetting) -> tuple[Contradiction, ...]:
    """Return all that is wrong, the fatal ones first."""
    found = [each for rule in _RULES for each in rule(setting)]
    return tuple(sorted(found, key=lambda each: not each.fatal))


def matching_interfaces(value: str, interfaces: frozenset[str]) -> frozenset[str]:
    """Return the interfaces that a value of NCCL_SOCKET_IFNAME selects.

    A list of prefixes, separated by commas; `=` before the list: whole names; `^` before it: all but these.
    """
    excluded = value.startswith("^")
    rest = value[1:] if excluded else value
    exact = rest.startswith("=")
    names = [name for name in rest.removeprefix("=").split(",") if name]
    hit = frozenset(
        each for each in interfaces if any(each == name if exact else each.startswith(name) for name in names)
    )
    return interfaces - hit if excluded else hit


def _nccl_interface(setting: NodeSetting) -> Iterator[Contradiction]:
    value = setting.variables.get("NCCL_SOCKET_IFNAME", "")
    if setting.backend != "nccl" or not value or not setting.interfaces:
        return
    chosen = matching_interfaces(value, setting.interfaces)
    yield from _interface("NCCL_SOCKET_IFNAME", value, chosen, setting)


def _gloo_interface(setting: NodeSetting) -> Iterator[Contradiction]:
    value = setting.variables.get("GLOO_SOCKET_IFNAME", "")
    if not value or not setting.interfaces:
        return
    names = frozenset(name for name in value.split(",") if name)  # ProcessGroupGloo takes whole names
    gone = sorted(names - setting.interfaces)
    if gone and names & setting.interfaces:
        what = f"GLOO_SOCKET_IFNAME={value} names {', '.join(gone)}, which the node does not have"
        yield Contradiction(what, _name_one(setting.interfaces), fatal=True)
        return
    yield from _interface("GLOO_SOCKET_IFNAME", value, names & setting.interfaces, setting)


def _interface(
    name: str, value: str, chosen: frozenset[str], setting: NodeSetting
) -> Iterator[Contradiction]:
    known = setting.interfaces or frozenset()
    if not chosen:
        yield Contradiction(f"{name}={value} names no interface of the node", _name_one(known), fatal=True)
    elif chosen == {LOOPBACK} and setting.nodes > 1:
        what = f"{name}={value} is the loopback interface, on which no other node is reached"
        yield Contradiction(what, _name_one(known), fatal=True)


def _name_one(known: frozenset[str]) -> str:
    usable = ", ".join(sorted(known - {LOOPBACK})) or LOOPBACK
    return f"unset it, as Torchdeck chooses the interface of each node, or name one of {usable}"


def _infiniband(setting: NodeSetting) -> Iterator[Contradiction]:
    if setting.backend != "nccl":
        return
    hca = setting.variables.get("NCCL_IB_HCA", "")
    net = setting.variables.get("NCCL_NET", "")
    off, devices = setting.on("NCCL_IB_DISABLE"), setting.infiniband
    if off and net.upper() == "IB":
        what = "NCCL_NET=IB requires InfiniBand, and NCCL_IB_DISABLE=1 turns it off"
        yield Contradiction(what, "unset one of them", fatal=True)
    elif off and hca:
        what = f"NCCL_IB_HCA={hca} chooses InfiniBand devices, and NCCL_IB_DISABLE=1 turns InfiniBand off"
        yield Contradiction(what, "unset NCCL_IB_DISABLE, or else NCCL_IB_HCA")
    elif off and devices and setting.nodes > 1:
        what = f"NCCL_IB_DISABLE=1 leaves the InfiniBand devices {', '.join(devices)} unused: nodes use TCP"
        yield Contradiction(what, "unset it, if InfiniBand works between the nodes")
    if net.lower() == "socket" and hca:
        what = f"NCCL_IB_HCA={hca} has no effect: NCCL_NET=Socket selects TCP"
        yield Contradiction(what, "unset one of them")
    if net.upper() == "IB" and devices == ():
        what = "NCCL_NET=IB requires InfiniBand, and the node has no InfiniBand device"
        yield Contradiction(what, "unset it", fatal=True)
    elif hca and not off and devices is not None and not _selected(hca, devices):
        there = f"it has {', '.join(devices)}" if devices else "it has none"
        what = f"NCCL_IB_HCA={hca} selects no InfiniBand device of the node: {there}"
        yield Contradiction(what, "unset it, or name devices that `ibv_devices` lists")


def _selected(hca: str, devices: tuple[str, ...]) -> frozenset[str]:
    """Return the devices that a value of NCCL_IB_HCA selects; its names may end with a port (`mlx5_0:1`)."""
    head = hca[: len(hca) - len(hca.lstrip("^="))]
    names = ",".join(name.partition(":")[0] for name in hca[len(head) :].split(","))
    return matching_interfaces(head + names, frozenset(devices))


def _within_a_node(setting: NodeSetting) -> Iterator[Contradiction]:
    if setting.backend != "nccl" or setting.gpus < 2:
        return
    level = setting.variables.get("NCCL_P2P_LEVEL", "").upper()
    off = setting.on("NCCL_P2P_DISABLE")
    name = "NCCL_P2P_DISABLE=1" if off else f"NCCL_P2P_LEVEL={level}"
    if off and level not in ("", "LOC", "0"):
        what = (
            f"NCCL_P2P_LEVEL={level} has no effect: NCCL_P2P_DISABLE=1 turns direct copies between GPUs off"
        )
        yield Contradiction(what, "unset one of them")
    if (off or level in ("LOC", "0")) and setting.on("NCCL_SHM_DISABLE"):
        what = f"{name} and NCCL_SHM_DISABLE=1 leave only the network between the GPUs of one node"
        yield Contradiction(what, "unset at least NCCL_SHM_DISABLE")
    elif off or level in ("LOC", "0"):
        link = "their NVLink is" if setting.nvlink else "NVLink and PCIe peer access are"
        what = f"{name} makes the {setting.gpus} GPUs copy through main memory: {link} unused"
        yield Contradiction(what, "unset it, unless direct copies fail on this machine")


_RENAMED = {
    "NCCL_ASYNC_ERROR_HANDLING": "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_BLOCKING_WAIT": "TORCH_NCCL_BLOCKING_WAIT",
    "NCCL_DESYNC_DEBUG": "TORCH_NCCL_DESYNC_DEBUG",
    "NCCL_ENABLE_TIMING": "TORCH_NCCL_ENABLE_TIMING",
    "NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK": "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "TORCH_FR_BUFFER_SIZE",
    "TORCH_NCCL_TRACE_CPP_STACK": "TORCH_FR_CPP_STACK",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "TORCH_FR_DUMP_TEMP_FILE",
    "NCCL_MAX_NRINGS": "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_NRINGS": "NCCL_MIN_NCHANNELS",
}
"""Old name → new name: ProcessGroupNCCL.hpp reads both, in the order new, old, and warns of the old one; NCCL
has read both numbers of rings since 2.5.
"""
_REMOVED = {
    "NCCL_IB_CUDA_SUPPORT": "NCCL_NET_GDR_LEVEL",
    "NCCL_TREE_THRESHOLD": "NCCL_ALGO",
    "NCCL_LL_THRESHOLD": "NCCL_PROTO",
    "NCCL_TIMEOUT": "init_process_group(timeout=…)",
}
"""Names that no current NCCL or torch reads → what replaces them."""


def _names(setting: NodeSetting) -> Iterator[Contradiction]:
    for old, new in _RENAMED.items():
        if not setting.has(old):
            continue
        if setting.has(new) and setting.variables[new] != setting.variables[old]:
            both = f"{old}={setting.variables[old]} and {new}={setting.variables[new]}"
            yield Contradiction(f"{both} are the same setting; the newer name counts", f"unset {old}")
        elif not setting.has(new):
            yield Contradiction(f"{old} is the old name of {new}", f"set {new} instead")
    for old, new in _REMOVED.items():
        if setting.has(old):
            yield Contradiction(f"{old} has no effect: no current NCCL or torch reads it", f"use {new}")


def _errors(setting: NodeSetting) -> Iterator[Contradiction]:
    """ProcessGroupNCCL: blocking waits replace the handling of asynchronous errors."""
    if setting.backend != "nccl":
        return
    waits = setting.on("TORCH_NCCL_BLOCKING_WAIT") or setting.on("NCCL_BLOCKING_WAIT")
    handling = setting.variables.get(
        "TORCH_NCCL_ASYNC_ERROR_HANDLING", setting.variables.get("NCCL_ASYNC_ERROR_HANDLING", "")
    )
    if waits and handling not in ("", "0"):
        what = (
            "TORCH_NCCL_BLOCKING_WAIT=1 and TORCH_NCCL_ASYNC_ERROR_HANDLING exclude each other: only the "
            "first takes effect, and every collective blocks its thread"
        )
        yield Contradiction(what, "unset TORCH_NCCL_BLOCKING_WAIT")
    size = setting.variables.get(
        "TORCH_FR_BUFFER_SIZE", setting.variables.get("TORCH_NCCL_TRACE_BUFFER_SIZE")
    )
    if setting.on("TORCH_NCCL_DUMP_ON_TIMEOUT") and size is not None and size.strip() == "0":
        what = "TORCH_NCCL_DUMP_ON_TIMEOUT=1 writes nothing, as TORCH_FR_BUFFER_SIZE=0 records nothing"
        yield Contradiction(what, "unset TORCH_FR_BUFFER_SIZE")


_MOST_SOCKETS = 64
"""NCCL_SOCKET_NTHREADS × NCCL_NSOCKS_PERTHREAD, says NCCL's guide."""


def _sockets(setting: NodeSetting) -> Iterator[Contradiction]:
    values = [setting.variables.get(name, "") for name in ("NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD")]
    if all(value.isdecimal() and len(value) < 10 for value in values):
        count = int(values[0]) * int(values[1])
        if count > _MOST_SOCKETS:
            what = f"NCCL_SOCKET_NTHREADS × NCCL_NSOCKS_PERTHREAD is {count}, and {_MOST_SOCKETS} is the most"
            yield Contradiction(what, "lower one of them")


_DEBUGGING = {
    "CUDA_LAUNCH_BLOCKING": frozenset({"1"}),
    "NCCL_DEBUG": frozenset({"TRACE"}),
    "TORCH_DISTRIBUTED_DEBUG": frozenset({"DETAIL"}),
}
"""Variable → values that cost time in every step."""


def _debugging(setting: NodeSetting) -> Iterator[Contradiction]:
    for name, values in _DEBUGGING.items():
        value = setting.variables.get(name, "").strip()
        if value.upper() in values and (setting.backend == "nccl" or name == "TORCH_DISTRIBUTED_DEBUG"):
            yield Contradiction(f"{name}={value} is for debugging, and slows every step", "unset it")


_RULES: tuple[Rule, ...] = (
    _nccl_interface,
    _gloo_interface,
    _infiniband,
    _within_a_node,
    _names,
    _errors,
    _sockets,
    _debugging,
)
