"""Current activity of this machine: its load, the users of its devices, and its busiest processes."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import psutil

from torchdeck.agent.gpus import Sampler
from torchdeck.agent.machine import MachineSampler
from torchdeck.agent.probe.system import nearest, usable_cores
from torchdeck.contract.inventory import LOCALHOST, Device
from torchdeck.nodes.gpus.gpu_now import NodeGpus
from torchdeck.nodes.gpus.here import GpusHere
from torchdeck.nodes.this_machine import probe_gpus

# Load of each core of this machine.


class CoreLoads:
    """Percent of each core, in the system's order, over the time since the last poll."""

    def __init__(self) -> None:
        self._before = _ticks()

    def look(self) -> tuple[float, ...]:
        """Return one number per core, from 0 to 100; empty if cores have come or gone, or no time has
        passed.
        """
        before, self._before = self._before, _ticks()
        if len(before) != len(self._before):
            return ()
        return core_loads(before, self._before)


def core_loads(before: list[tuple[float, float]], now: list[tuple[float, float]]) -> tuple[float, ...]:
    """Return the percentages from (busy, all) seconds of each core at two times; empty if the times are
    equal.
    """
    passed = [(new[0] - old[0], new[1] - old[1]) for old, new in zip(before, now, strict=True)]
    if not any(whole > 0 for _, whole in passed):
        return ()
    return tuple(100.0 * min(1.0, max(0.0, busy) / whole) if whole > 0 else 0.0 for busy, whole in passed)


def _ticks() -> list[tuple[float, float]]:
    """Return (busy, all) seconds of each core since boot."""
    return [_busy_and_all(times) for times in psutil.cpu_times(percpu=True)]


def _busy_and_all(times: Any) -> tuple[float, float]:
    """Return the seconds of psutil's named tuple: guest time is already counted as user time."""
    whole = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return whole - times.idle - getattr(times, "iowait", 0.0), whole


PROCESSES = 12
"""Number of busiest processes that are reported."""
PROCESS_INTERVAL = 2.0
"""Seconds between two polls of all processes."""
FIRST_INTERVAL = 0.5
"""Seconds between the first and the second poll."""
_RUN_ID = "TORCHDECK_RUN_ID"


@dataclass(frozen=True)
class Owner:
    """Run that holds a device."""

    run_id: str
    name: str


@dataclass(frozen=True)
class DeviceActivity:
    """Current activity of one GPU; None if it is not reported."""

    device: Device
    utilisation: float | None = None
    """Percent."""
    memory_used: float | None = None
    """Bytes."""
    temperature: float | None = None
    """Degrees Celsius."""
    power: float | None = None
    """Watts."""
    owner: Owner | None = None


@dataclass(frozen=True)
class ProcessActivity:
    """One process."""

    pid: int
    name: str
    user: str
    cpu: float
    """Percent of one core."""
    resident: int
    """Bytes."""
    run_id: str = ""
    """The run it belongs to; empty if it belongs to none of this user's."""


NO_GPUS = NodeGpus(LOCALHOST, (), None, {}, {}, None, "")


@dataclass(frozen=True)
class Activity:
    """One machine at one moment."""

    time: float
    host: str
    system: str
    """Name, such as `Linux 6.1, x86_64`."""
    cores: int
    """Cores that this user's processes may use."""
    cpu: float
    """Percent of all cores together."""
    load: tuple[float, float, float]
    """Processes that ran or waited, over 1, 5 and 15 minutes."""
    memory_total: int
    memory_used: int
    disk_free: int
    """Free bytes where runs are kept."""
    disk_total: int
    received: float
    """Bytes per second over all interfaces except loopback."""
    sent: float
    devices: tuple[DeviceActivity, ...]
    processes: tuple[ProcessActivity, ...]
    """Processes, the busiest first."""
    core_loads: tuple[float, ...] = ()
    """Percent of each core of the machine; empty at the first poll."""
    gpus: NodeGpus = NO_GPUS
    """The same GPUs with all that is known of them."""


class ActivityWatch:
    """Polls this machine; rates are over the time since the last poll. Use it from one thread at a time."""

    def __init__(
        self, home: Path, *, probe: Callable[[], tuple[Device, ...]] = probe_gpus, gpus: Sampler | None = None
    ) -> None:
        """Watch the machine that keeps its runs in `home`."""
        self._home = home
        self._machine = MachineSampler(nearest(home))
        self._cores = CoreLoads()
        self._gpus = GpusHere(home, probe=probe, sampler=gpus)
        self._watched: dict[int, psutil.Process] = {}
        self._processes: tuple[ProcessActivity, ...] = ()
        self._due = 0.0

    def look(self) -> Activity:
        """Return the current activity: takes some milliseconds, and some tens every other second for the
        processes.
        """
        values = self._machine.sample()
        disk = psutil.disk_usage(str(nearest(self._home)))
        gpus = self._gpus.look()
        return Activity(
            time=time.time(),
            host=platform.node(),
            system=f"{platform.system()} {platform.release().partition('-')[0]}, {platform.machine()}",
            cores=usable_cores(),
            cpu=values.get("cpu_percent", 0.0),
            load=os.getloadavg(),
            memory_total=int(values.get("memory_total_bytes", 0)),
            memory_used=int(values.get("memory_used_bytes", 0)),
            disk_free=disk.free,
            disk_total=disk.total,
            received=values.get("net_rx_bytes_per_s", 0.0),
            sent=values.get("net_tx_bytes_per_s", 0.0),
            devices=tuple(_device(device, gpus) for device in gpus.devices),
            processes=self._busiest(),
            core_loads=self._cores.look(),
            gpus=gpus,
        )

    def _busiest(self) -> tuple[ProcessActivity, ...]:
        now = time.monotonic()
        if now < self._due:
            return self._processes
        is_first = not self._watched
        self._due = now + (FIRST_INTERVAL if is_first else PROCESS_INTERVAL)
        alive = set(psutil.pids())
        self._watched = {pid: process for pid, process in self._watched.items() if pid in alive}
        loads = []
        for pid in alive:
            try:
                if pid not in self._watched:
                    self._watched[pid] = psutil.Process(pid)
                process = self._watched[pid]
                loads.append((process.cpu_percent(None), process))
            except psutil.Error:
                self._watched.pop(pid, None)
        if is_first:
            return ()  # CPU shares are known from the second poll on
        loads.sort(key=lambda item: -item[0])
        found = [_described(process, cpu) for cpu, process in loads[:PROCESSES]]
        # a process without memory of its own is a kernel thread
        self._processes = tuple(item for item in found if item is not None and item.resident)
        return self._processes


def _device(device: Device, gpus: NodeGpus) -> DeviceActivity:
    owner, name = gpus.owners.get(device.key), f"gpu{device.index}"
    return DeviceActivity(
        device,
        utilisation=gpus.values.get(f"{name}_util"),
        memory_used=gpus.values.get(f"{name}_memory_used_bytes"),
        temperature=gpus.values.get(f"{name}_temperature_c"),
        power=gpus.values.get(f"{name}_power_w"),
        owner=None if owner is None else Owner(*owner),
    )


def _described(process: psutil.Process, cpu: float) -> ProcessActivity | None:
    """Return the process's activity; None if it has ended meanwhile."""
    try:
        with process.oneshot():
            return ProcessActivity(
                process.pid,
                process_name(process.name(), _command_of(process)),
                process.username(),
                cpu,
                process.memory_info().rss,
                _run_of(process),
            )
    except psutil.Error:
        return None


def _command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # another user's
        return []


def _run_of(process: psutil.Process) -> str:
    try:
        return process.environ().get(_RUN_ID, "")
    except psutil.Error:  # another user's
        return ""


_PYTHON = re.compile(r"python[0-9.]*")
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


def process_name(name: str, command: Sequence[str]) -> str:
    """Return `name`; for a Python its script or module too: `python train.py`, `python -m
    torch.distributed.run`.

    Args:
        name: name as reported by the system.
        command: its command line, as far as it is readable.
    """
    if not _PYTHON.fullmatch(name):
        return name
    rest = iter(command[1:])
    for part in rest:
        if part in _WITH_VALUE:
            next(rest, "")
        elif part == "-m":
            return f"{name} -m {next(rest, '')}".rstrip()
        elif part == "-c":
            return f"{name} -c …"
        elif not part.startswith("-"):
            return f"{name} {PurePath(part).name}".rstrip()
    return name
