"""This machine, as a node."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from torchdeck.agent.gpus import listed_gpus
from torchdeck.agent.probe.system import main_memory, system_facts, usable_cores
from torchdeck.contract.inventory import Device, NodeInfo


def probe_local(name: str = "localhost") -> NodeInfo:
    """Return this machine's hardware, for a node called `name`; takes at most tens of milliseconds if there
    is no GPU.
    """
    memory, free = main_memory()
    return NodeInfo(
        name=name,
        address="127.0.0.1",
        devices=probe_gpus(),
        cpu_count=usable_cores(),
        memory_bytes=memory,
        free_bytes=free,
    )


# NVIDIA GPUs of this machine: from the driver's library, else from nvidia-smi, else none.
#
# This machine is probed before every plan, and the library answers without a process. Other nodes need not
# have pynvml, and are probed for more facts than are needed here: they use nvidia-smi (`agent.probe.gpus`).

_DRIVER_SIGNS = (Path("/dev/nvidiactl"), Path("/proc/driver/nvidia"), Path("/dev/dxg"))
"""One of these exists wherever the driver is installed (the last on WSL)."""


def probe_gpus(smi: str = "nvidia-smi", limit: float = 10.0) -> tuple[Device, ...]:
    """Return GPUs in the driver's order; empty if there is no driver.

    Args:
        smi: program used if the pynvml package is missing.
        limit: timeout in seconds; a driver in trouble hangs.
    """
    # checking for the driver first saves a machine without one the import of pynvml, 10 ms
    found = devices_from_nvml() if any(sign.exists() for sign in _DRIVER_SIGNS) else None
    return devices_from_smi(smi, limit) if found is None else found


def devices_from_nvml() -> tuple[Device, ...] | None:
    """Return GPUs by NVML; None if the package or the driver's library is missing or does not answer."""
    if importlib.util.find_spec("pynvml") is None:
        return None
    nvml = importlib.import_module("pynvml")  # it has no types
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    try:
        return tuple(_nvml_device(nvml, index) for index in range(nvml.nvmlDeviceGetCount()))
    except nvml.NVMLError:
        return None
    finally:
        nvml.nvmlShutdown()


def _nvml_device(nvml: ModuleType, index: int) -> Device:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    return Device(
        index=index,
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        name=_text(nvml.nvmlDeviceGetName(handle)),
        memory_bytes=int(memory.total),
        free_bytes=int(memory.free),
    )


def _text(value: object) -> str:
    """Decode the text: older pynvml returns bytes, newer str."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def devices_from_smi(program: str, limit: float) -> tuple[Device, ...]:
    """Return GPUs by nvidia-smi; empty if it is missing, fails, or takes more than `limit` seconds."""
    try:
        listed = listed_gpus(program, limit)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(Device(gpu.number, gpu.uuid, gpu.name, gpu.memory, gpu.free) for gpu in listed)


# System software of this machine: its name, its kernel, and NVIDIA's driver.

DRIVER_FILE = Path("/sys/module/nvidia/version")
"""Version reported by the kernel's module; missing on WSL."""
LIMIT = 10.0
"""Timeout in seconds for nvidia-smi; a driver in trouble hangs."""
_VERSION = re.compile(r"\d+(\.\d+)+")


@dataclass(frozen=True)
class SoftwareFacts:
    """System software facts that matter to training."""

    system: str
    """Distribution, like `Debian GNU/Linux 12 (bookworm)`; else the kernel's name."""
    kernel: str
    """Kernel release, like `6.1.0-18-amd64`."""
    machine: str
    """Architecture, like `x86_64`."""
    driver: str | None = None
    """Version of NVIDIA's driver, like `550.54.15`; None if there is none, or it does not answer."""


def probe_software(
    *, driver_file: Path = DRIVER_FILE, smi: str = "nvidia-smi", limit: float = LIMIT
) -> SoftwareFacts:
    """Return the software facts of this system; a process is started only if the kernel does not name the
    driver.

    Args:
        driver_file: file in which the kernel names it.
        smi: program used otherwise.
        limit: timeout in seconds.
    """
    facts = system_facts()
    driver = driver_of_kernel(driver_file) or driver_of_smi(smi, limit)
    return SoftwareFacts(facts["os"], facts["kernel"], facts["machine"], driver)


def driver_of_kernel(path: Path) -> str | None:
    """Return the version in `path`; None if there is none."""
    try:
        return _version(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None


def driver_of_smi(program: str, limit: float) -> str | None:
    """Return the version reported by nvidia-smi; None if it is missing, fails, or takes over `limit`
    seconds.
    """
    try:
        listed = listed_gpus(program, limit)
    except (OSError, subprocess.SubprocessError):
        return None
    return _version(listed[0].driver) if listed else None


def _version(text: str) -> str | None:
    """Return the first line, if it is a version and not an error message."""
    first = text.strip().partition("\n")[0].strip()
    return first if _VERSION.fullmatch(first) else None
