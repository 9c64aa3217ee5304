"""The machine: its system, processors, memory, disks, and what its login system does to processes."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torchdeck.agent.machine import machine_memory
from torchdeck.contract.free_space import inodes_left
from torchdeck.contract.node_requests import COMMUNICATION_PREFIXES
from torchdeck.contract.processes import PROC

CGROUP = Path("/sys/fs/cgroup")
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where Linux keeps it; asked for its size only
OS_RELEASE = (Path("/etc/os-release"), Path("/usr/lib/os-release"))
"""The first that is there counts (os-release(5))."""
BF16_FLAGS = ("avx512f", "avx512_bf16", "amx_bf16", "avx_ne_convert")
"""Flags of /proc/cpuinfo on x86: with any of them torch's kernels compute bf16 about as fast as fp32, or
faster.
"""
INFINIBAND = Path("/sys/class/infiniband")
NCCL_FILES = (Path("/etc/nccl.conf"), Path("~/.nccl.conf"))
"""The later one wins."""
_LONGEST_FILE = 64 * 1024
_LONGEST_VALUE = 1024
_MOST_VARIABLES = 200
LOGIND = Path("/etc/systemd")
LINGER = Path("/var/lib/systemd/linger")
SYSTEMD = Path("/run/systemd/system")
"""There where systemd is process 1 (sd_booted(3))."""


def system_facts() -> dict[str, Any]:
    """Host name, distribution, kernel, architecture and the kernel's identity of this boot."""
    return {
        "host": os.uname().nodename,
        "os": _distribution(),
        "kernel": os.uname().release,
        "machine": os.uname().machine,
        "boot": _read(PROC / "sys/kernel/random/boot_id").strip(),
        "user": _user(),
    }


def cpu_facts(cgroup: Path = CGROUP) -> dict[str, Any]:
    """Cores of the machine, those that this user's processes may use, their model and flags, and load."""
    usable = usable_cores(cgroup)
    described = _first_processor(_read(PROC / "cpuinfo"))
    return {
        "cores": os.cpu_count() or usable,
        "usable": usable,
        "model": described.get("model name", ""),
        "bf16": bf16_flags(described.get("flags")),
        "load": os.getloadavg()[0],
    }


def bf16_here() -> list[str] | None:
    """As `cpu_facts` has it of this machine."""
    return bf16_flags(_first_processor(_read(PROC / "cpuinfo")).get("flags"))


def bf16_flags(flags: str | None) -> list[str] | None:
    """Return those of `BF16_FLAGS` among a processor's flags; None if it has none of x86."""
    return None if flags is None else [flag for flag in BF16_FLAGS if flag in flags.split()]


def _first_processor(cpuinfo: str) -> dict[str, str]:
    """Name → value of the first processor that the kernel describes."""
    pairs = [line.partition(":") for line in cpuinfo.partition("\n\n")[0].splitlines()]
    return {name.strip(): value.strip() for name, _, value in pairs}


def usable_cores(cgroup: Path = CGROUP) -> int:
    """Cores that this process may use: its affinity, cut by the container's quota (cgroup v2 `cpu.max`)."""
    cores = len(os.sched_getaffinity(0))
    with contextlib.suppress(ValueError, ZeroDivisionError):  # no quota ("max"), or no cgroup v2
        quota, period = _read(cgroup / "cpu.max").split()
        return max(1, min(cores, int(quota) // int(period)))
    return cores


def memory_facts() -> dict[str, int]:
    """Bytes of main memory in all and free, and of shared memory."""
    total, free = main_memory()
    shared = _disk(SHARED_MEMORY) or {"total": 0, "free": 0}
    return {"total": total, "free": free, "shm_total": shared["total"], "shm_free": shared["free"]}


def main_memory(cgroup: Path = CGROUP) -> tuple[int, int]:
    """Bytes in all and bytes free: the machine's, cut by the container's limit (cgroup v2 `memory.max`).

    Of a container's memory, file cache that was not used lately counts as free, since the kernel drops it
    when memory is asked for (`inactive_file` in `memory.stat`).
    """
    total, free = machine_memory()
    with contextlib.suppress(ValueError):  # no limit ("max"), or no cgroup v2
        limit = int(_read(cgroup / "memory.max"))
        used = int(_read(cgroup / "memory.current"))
        cached = _statistic(_read(cgroup / "memory.stat"), "inactive_file")
        return min(total, limit), min(free, max(0, limit - max(0, used - cached)))
    return total, free


def process_limits() -> dict[str, dict[str, int | None]]:
    """Soft and hard limits of a process of this session, as ranks inherit them; None: no limit."""
    import resource

    kinds = {"open_files": resource.RLIMIT_NOFILE, "locked_memory": resource.RLIMIT_MEMLOCK}
    return {
        name: {
            side: None if value == resource.RLIM_INFINITY else value
            for side, value in zip(("soft", "hard"), resource.getrlimit(kind), strict=True)
        }
        for name, kind in kinds.items()
    }


def infiniband_devices(folder: Path = INFINIBAND) -> list[str]:
    """Names of InfiniBand and RoCE devices, as the kernel lists them."""
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []


def communication_variables(environ: Mapping[str, str], files: Iterable[Path] = NCCL_FILES) -> dict[str, str]:
    """Variables of NCCL, gloo and torch in `environ`, and what NCCL's own files set besides.

    NCCL reads `/etc/nccl.conf` and `~/.nccl.conf`; a variable of the environment wins.
    """
    found: dict[str, str] = {}
    for file in files:
        for line in _read(file.expanduser())[:_LONGEST_FILE].splitlines():
            name, equals, value = line.partition("=")
            if equals and name.strip().startswith("NCCL_"):
                found[name.strip()] = value.strip()
    found.update((name, value) for name, value in environ.items() if name.startswith(COMMUNICATION_PREFIXES))
    return {name: value[:_LONGEST_VALUE] for name, value in sorted(found.items())[:_MOST_VARIABLES]}


def disk_facts(folders: Iterable[str]) -> list[dict[str, Any]]:
    """Bytes in all and free where each of `folders` is, or would be made, and whether it may be written."""
    found = []
    for folder in folders:
        place = nearest(Path(folder).expanduser())
        disk = _disk(str(place))
        if disk is not None:
            found.append(
                {
                    "path": str(Path(folder).expanduser()),
                    "there": place == Path(folder).expanduser(),
                    "writable": os.access(place, os.W_OK | os.X_OK),
                    **disk,
                    "inodes": _inodes(place),
                }
            )
    return found


def nearest(folder: Path) -> Path:
    """`folder`, or the nearest around it that is there, as far as this user may look."""
    # of os.path: Path.exists raises if a folder on the path cannot be entered
    return next(
        place
        for place in (folder, *folder.parents)
        if os.path.exists(place) or place == place.parent  # noqa: PTH110
    )


def kills_after_logout(config: Path = LOGIND, linger: Path = LINGER) -> bool:
    """Whether systemd-logind ends what a session leaves (KillUserProcesses=yes, this user not lingering).

    Read from logind.conf(5) and its drop-ins; the later file wins.
    """
    if not SYSTEMD.is_dir() or (linger / _user()).exists():
        return False
    files = [config / "logind.conf", *sorted((config / "logind.conf.d").glob("*.conf"))]
    kills, excluded = False, {"root"}
    for line in (line.strip() for file in files for line in _read(file).splitlines()):
        name, _, value = line.partition("=")
        if name.strip() == "KillUserProcesses":
            kills = value.strip().lower() in ("yes", "true", "1", "on")
        elif name.strip() == "KillExcludeUsers":
            excluded = set(value.split())
    return kills and _user() not in excluded


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _distribution() -> str:
    text = next((text for file in OS_RELEASE if (text := _read(file))), "")
    for line in text.splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip().strip("\"'") or os.uname().sysname
    return os.uname().sysname


def _disk(folder: str) -> dict[str, int] | None:
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return None
    return {"total": usage.total, "free": usage.free}


def _inodes(folder: Path) -> int | None:
    try:
        left = inodes_left(folder)
    except OSError:
        return None
    return None if left is None else min(left, 2**62)


def _statistic(text: str, name: str) -> int:
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
