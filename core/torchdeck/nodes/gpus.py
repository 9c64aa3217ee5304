"""NVIDIA GPUs of this machine: from the driver's library, else from nvidia-smi, else none.

This machine is probed before every plan, and the library answers without a process. Other nodes need not
have pynvml, and are probed for more facts than are needed here: they use nvidia-smi (`agent.probe.gpus`).
"""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

from torchdeck.agent.gpus.nvidia_smi import listed_gpus
from torchdeck.contract.inventory import Device

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
