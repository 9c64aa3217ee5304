"""The NVIDIA GPUs of this machine: from the driver's library, else from nvidia-smi, else none."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

from torchdeck.nodes.inventory import Device

_SMI_QUERY = ("--query-gpu=index,uuid,memory.total,memory.free,name", "--format=csv,noheader,nounits")
_DRIVER_SIGNS = (Path("/dev/nvidiactl"), Path("/proc/driver/nvidia"), Path("/dev/dxg"))
"""One of them is there wherever the driver is (the last on WSL)."""
_MIB = 1024 * 1024


def probe_gpus(smi: str = "nvidia-smi", limit: float = 10.0) -> tuple[Device, ...]:
    """GPUs in the driver's order; none where there is no driver.

    Args:
        smi: program asked when the pynvml package is missing.
        limit: seconds that it may take; a driver in trouble hangs.
    """
    # looking for the driver first saves a machine without one the import of pynvml, 10 ms
    found = devices_from_nvml() if any(sign.exists() for sign in _DRIVER_SIGNS) else None
    return devices_from_smi(smi, limit) if found is None else found


def devices_from_nvml() -> tuple[Device, ...] | None:
    """GPUs by NVML; None when the package or the driver's library is missing or will not answer."""
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
    """Older pynvml gives bytes where newer gives str."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def devices_from_smi(program: str, limit: float) -> tuple[Device, ...]:
    """GPUs by nvidia-smi; none when it is missing, fails, or takes more than `limit` seconds."""
    path = shutil.which(program)
    if path is None:
        return ()
    try:
        answer = subprocess.run(
            [path, *_SMI_QUERY], capture_output=True, text=True, timeout=limit, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return parse_smi(answer.stdout) if answer.returncode == 0 else ()


def parse_smi(text: str) -> tuple[Device, ...]:
    """Devices in nvidia-smi's CSV (index, UUID, MiB in all, MiB free, name); other lines are passed over."""
    devices = []
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        cells = [cell.strip() for cell in row]
        if len(cells) < 5 or not cells[0].isdecimal():
            continue
        devices.append(
            Device(
                index=int(cells[0]),
                uuid=cells[1],
                name=", ".join(cells[4:]),
                memory_bytes=_mebibytes(cells[2]) or 0,
                free_bytes=_mebibytes(cells[3]),
            )
        )
    return tuple(devices)


def _mebibytes(text: str) -> int | None:
    """Bytes; None for "[N/A]"."""
    return int(text) * _MIB if text.isdecimal() else None
