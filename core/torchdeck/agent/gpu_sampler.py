"""GPUs' numbers: by NVML where the node's Python has it, else by nvidia-smi, else none."""

from __future__ import annotations

import contextlib
import importlib
import shutil
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

from torchdeck.agent.nvidia_smi import listed_gpus

SMI_TIMEOUT = 5.0
"""Seconds; a driver in trouble makes nvidia-smi hang."""
SMI_FIELDS = (
    ("utilization.gpu", "util", 1.0),
    ("memory.used", "memory_used_bytes", 2.0**20),
    ("memory.total", "memory_total_bytes", 2.0**20),
    ("temperature.gpu", "temperature_c", 1.0),
    ("power.draw", "power_w", 1.0),
)
"""nvidia-smi's field, our series, and what its unit is multiplied by to get ours."""

Sampler = Callable[[], "dict[str, float]"]


def gpu_sampler() -> Sampler | None:
    """Return a sampler of `gpu<i>_` util (percent), memory_used_bytes, memory_total_bytes, temperature_c and
    power_w.

    None if the node has no NVIDIA GPU that can be queried. The first use may take seconds: not for the loop.
    """
    return _nvml_sampler() or _smi_sampler()


def parse_smi(text: str) -> dict[str, float]:
    """Rows of `nvidia-smi --query-gpu=index,...` as CSV without header and units; "[N/A]" is left out."""
    values = {}
    for line in text.splitlines():
        index, *words = [word.strip() for word in line.split(",")]
        if not index.isdecimal():
            continue
        for (_, name, factor), word in zip(SMI_FIELDS, words, strict=False):  # a driver may answer less
            with contextlib.suppress(ValueError):
                values[f"gpu{index}_{name}"] = float(word) * factor
    return values


def gone_devices(devices: Sequence[str]) -> list[str]:
    """Those of `devices`, by UUID or index, that nvidia-smi lists no more; none where it cannot be asked."""
    if not devices:
        return []
    try:
        found = listed_gpus(limit=SMI_TIMEOUT)
    except (OSError, subprocess.SubprocessError):
        return []
    listed = {key for gpu in found for key in (gpu.uuid, str(gpu.number))}
    return [device for device in devices if device not in listed] if listed else []


def _smi_sampler() -> Sampler | None:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    fields = ",".join(("index", *(field for field, _, _ in SMI_FIELDS)))
    argv = [program, f"--query-gpu={fields}", "--format=csv,noheader,nounits"]

    def sample() -> dict[str, float]:
        result = subprocess.run(argv, capture_output=True, text=True, timeout=SMI_TIMEOUT, check=False)
        return parse_smi(result.stdout) if result.returncode == 0 else {}

    return sample


def _nvml_sampler() -> Sampler | None:
    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    except Exception:  # noqa: BLE001 - no package, no driver, no permission: there is nothing to ask
        return None
    if not handles:
        return None

    def sample() -> dict[str, float]:
        values: dict[str, float] = {}
        for index, handle in enumerate(handles):
            values.update(_nvml_values(nvml, index, handle))
        return values

    return sample


def _nvml_values(nvml: Any, index: int, handle: Any) -> dict[str, float]:
    readings: dict[str, Callable[[], float]] = {
        "util": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        "memory_used_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used,
        "memory_total_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total,
        "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        "power_w": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000.0,
    }
    values = {}
    for name, read in readings.items():
        with contextlib.suppress(nvml.NVMLError):  # this device does not tell it
            values[f"gpu{index}_{name}"] = float(read())
    return values
