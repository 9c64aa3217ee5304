"""One GPU at one moment: its values, its processes, and who holds it until when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from torchdeck.agent.gpus import of_gpu
from torchdeck.contract.inventory import Device
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.nodes.probe.facts import GpuProcessHere

USED_PERCENT = 5.0
"""Percent of time or memory from which a GPU is in use although no process is known."""


class GpuState(StrEnum):
    """State of a GPU; its value is part of `nodes gpus --json`."""

    FREE = "free"
    HELD = "reserved"
    """A run has leased it, and no process uses it yet."""
    IN_USE = "in use"
    UNKNOWN = "unknown"
    """The node is not connected."""


@dataclass(frozen=True)
class GpuProcess:
    """Process that uses a GPU."""

    pid: int
    memory: int | None = None
    """Bytes; None if the driver does not report it."""
    process: ProcessIdentity | None = None
    """None if it is not visible on the node, as from within a container."""
    user: str = ""
    command: str = ""
    run_id: str = ""
    """Empty if it belongs to no run that is known."""
    endable: bool = False
    """Whether the user of the connection may end it."""
    graphics: bool = False
    """Whether it only draws, as a desktop does."""

    @classmethod
    def of(cls, found: GpuProcessHere) -> GpuProcess:
        """Return the process as a node has reported it."""
        return cls(
            found.pid,
            found.memory,
            ProcessIdentity.from_json(found.process),
            found.user,
            found.command,
            found.run_id,
            found.endable,
            found.graphics,
        )


@dataclass(frozen=True)
class RunHold:
    """Known facts of a run that holds GPUs."""

    name: str
    until: float | None = None
    """Expected end in seconds since 1970; None if unknown."""


@dataclass(frozen=True)
class GpuHolder:
    """Run or process that holds a GPU."""

    what: str
    """Name of the run, or command of the process."""
    user: str
    run_id: str = ""
    """Empty for a process that belongs to no run."""
    pid: int | None = None
    """Pid of a process that belongs to no run."""
    until: float | None = None
    """Expected end in seconds since 1970; None if unknown."""


@dataclass(frozen=True)
class GpuNow:
    """One GPU at one moment; None for values that are not reported."""

    node: str
    device: Device
    time: float | None
    """Time at which the values arrived, in seconds since 1970; None if there are none yet."""
    use: float | None = None
    """Percent of the time in which a kernel ran."""
    memory_used: float | None = None
    """Bytes."""
    temperature: float | None = None
    """Degrees Celsius."""
    power: float | None = None
    power_limit: float | None = None
    """Watts."""
    clock: float | None = None
    """MHz of the multiprocessors."""
    memory_clock: float | None = None
    """MHz."""
    reasons: int | None = None
    """NVML's bit mask of reasons for a lower clock."""
    holders: tuple[GpuHolder, ...] = ()
    """The run that has leased it first, then further runs, then other processes."""
    processes: tuple[GpuProcess, ...] | None = None
    """None if unknown."""
    is_connected: bool = True
    mig: bool = False
    """Whether it is divided into MIG instances; the driver reports no use of the whole GPU then."""

    @property
    def key(self) -> tuple[str, str]:
        """Return the node and the device's own key."""
        return self.node, self.device.key

    @property
    def memory_share(self) -> float | None:
        """Return the percent of memory in use."""
        total = self.device.memory_bytes
        return None if self.memory_used is None or not total else 100.0 * self.memory_used / total

    @property
    def state(self) -> GpuState:
        shares = (self.use, self.memory_share)
        if not self.is_connected or (self.processes is None and shares == (None, None)):
            return GpuState.UNKNOWN
        computes = any(not process.graphics for process in self.processes or ())
        if computes or any(share is not None and share >= USED_PERCENT for share in shares):
            return GpuState.IN_USE
        return GpuState.HELD if self.holders else GpuState.FREE


@dataclass(frozen=True)
class NodeGpus:
    """Reported state of a node's GPUs, from which `gpus_of` makes values."""

    node: str
    devices: Sequence[Device]
    time: float | None
    values: Mapping[str, float]
    """Series of `agent.gpus`."""
    owners: Mapping[str, tuple[str, str]]
    """Device key → id and name of the run that has leased it."""
    processes: Sequence[GpuProcessHere] | None
    user: str
    """User of the connection, who owns the leases."""
    is_connected: bool = True


def gpus_of(report: NodeGpus, runs: Mapping[str, RunHold]) -> tuple[GpuNow, ...]:
    """Return the node's GPUs; `runs` are known facts of runs by their ids."""
    return tuple(_gpu(report, device, runs) for device in report.devices)


def _gpu(report: NodeGpus, device: Device, runs: Mapping[str, RunHold]) -> GpuNow:
    own = of_gpu(report.values, device.index)
    processes = None
    if report.processes is not None:
        processes = tuple(GpuProcess.of(each) for each in report.processes if each.uuid == device.uuid)
    used = own.get("memory_used_bytes")
    if used is None and device.free_bytes is not None and device.memory_bytes:
        used = float(device.memory_bytes - device.free_bytes)
    reasons = own.get("throttle_reasons")
    return GpuNow(
        report.node,
        device,
        report.time,
        use=own.get("util"),
        memory_used=used,
        temperature=own.get("temperature_c"),
        power=own.get("power_w"),
        power_limit=own.get("power_limit_w"),
        clock=own.get("clock_mhz"),
        memory_clock=own.get("memory_clock_mhz"),
        reasons=None if reasons is None else int(reasons),
        holders=tuple(_holders(report.owners.get(device.key), processes or (), report.user, runs)),
        processes=processes,
        is_connected=report.is_connected,
        mig=bool(own.get("mig")),
    )


def _holders(
    lease: tuple[str, str] | None,
    processes: Iterable[GpuProcess],
    user: str,
    runs: Mapping[str, RunHold],
) -> Iterable[GpuHolder]:
    found: dict[str, tuple[str, str]] = {}
    if lease is not None:
        found[lease[0]] = (lease[1], user)
    others = []
    for process in processes:
        if process.run_id:
            found.setdefault(process.run_id, ("", process.user))
        elif not process.graphics:
            others.append(process)
    for run_id, (name, whose) in found.items():
        known = runs.get(run_id, RunHold(""))
        yield GpuHolder(known.name or name or run_id, whose, run_id, until=known.until)
    for process in others:
        yield GpuHolder(process.command, process.user, pid=process.pid)


def held_runs(gpus: Iterable[GpuNow]) -> set[str]:
    """Return the ids of the runs that hold one of these GPUs."""
    return {holder.run_id for gpu in gpus for holder in gpu.holders if holder.run_id}


# Reasons for a clock below the highest, by NVML's bit mask (NVML API reference, NvmlClocksEventReasons).


class Reason(StrEnum):
    """Reason for a lower clock, in words."""

    IDLE = "idle"
    SETTING = "clock set by a user"
    POWER_LIMIT = "power limit"
    HARDWARE = "hardware slowdown"
    SYNC_BOOST = "held to the clock of another GPU (sync boost)"
    HOT = "too hot"
    HARDWARE_HOT = "too hot (hardware)"
    POWER_BRAKE = "power brake of the server"
    DISPLAY = "clock of the display"
    OTHER = "another reason"


REASON_BITS = {
    0x1: Reason.IDLE,
    0x2: Reason.SETTING,
    0x4: Reason.POWER_LIMIT,
    0x8: Reason.HARDWARE,
    0x10: Reason.SYNC_BOOST,
    0x20: Reason.HOT,
    0x40: Reason.HARDWARE_HOT,
    0x80: Reason.POWER_BRAKE,
    0x100: Reason.DISPLAY,
}
SLOWDOWNS = frozenset({Reason.HARDWARE, Reason.HOT, Reason.HARDWARE_HOT, Reason.POWER_BRAKE})
"""Reasons that slow training down and need someone to act; a power limit is normal under load."""


def reasons_of(mask: int) -> tuple[Reason, ...]:
    """Return the reasons in NVML's bit mask; unknown bits together are one."""
    found = tuple(reason for bit, reason in REASON_BITS.items() if mask & bit)
    return (*found, Reason.OTHER) if mask & ~sum(REASON_BITS) else found


def slowdowns_of(mask: int | None) -> tuple[Reason, ...]:
    """Return those of them that need someone to act."""
    return tuple(reason for reason in reasons_of(mask or 0) if reason in SLOWDOWNS)


def reason_words(mask: int | None) -> str:
    """Return the reasons as text: `power limit, too hot`; `none`; `not reported`."""
    if mask is None:
        return "not reported"
    return ", ".join(reasons_of(mask)) or "none"
