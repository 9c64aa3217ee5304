"""NVIDIA GPUs by nvidia-smi: what they are, the driver, and which processes use them."""

from __future__ import annotations

import contextlib
import csv
import importlib
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

LIMIT = 8.0
"""Seconds; a driver in trouble makes nvidia-smi hang."""
_USER_FIELDS = "gpu_uuid,pid,used_memory"
_LISTED_FIELDS = "index,uuid,memory.total,memory.free,driver_version,name"
_MIB = 2**20
_CUDA = re.compile(r"CUDA Version:\s*([0-9.]+)")


class ListedGpu(NamedTuple):
    """A GPU as nvidia-smi lists it."""

    number: int
    """Its index, by which nvidia-smi knows it: a tuple has a method of that name."""
    uuid: str
    memory: int
    """Bytes in all; 0 where unknown."""
    free: int | None
    """Bytes; None if the driver does not report it."""
    driver: str
    """Its version, the same for all of them."""
    name: str


def gpu_facts(program: str = "nvidia-smi", limit: float = LIMIT) -> dict[str, Any]:
    """`devices` (index, uuid, name, memory, free, users), `driver` and the newest `cuda` that it can.

    All fields are empty without a driver; `error` is set if it did not answer.
    """
    facts: dict[str, Any] = {"devices": [], "driver": "", "cuda": "", "error": ""}
    path = shutil.which(program)
    if path is None:
        return facts
    try:
        listed = listed_gpus(path, limit)
        # what no process uses has no row in the second answer
        facts["devices"] = [_device(gpu) for gpu in listed]
        if not listed:
            return facts
        facts["driver"] = listed[0].driver
        for user in users(_query(path, "compute-apps", _USER_FIELDS, limit)):
            for device in facts["devices"]:
                if device["uuid"] == user["uuid"]:
                    device["users"].append({"pid": user["pid"], "memory": user["memory"]})
        match = _CUDA.search(_ask([path], limit))
        facts["cuda"] = match.group(1) if match else ""
    except subprocess.TimeoutExpired:
        facts["error"] = f"nvidia-smi did not answer within {limit:g} s"
    except (OSError, subprocess.CalledProcessError) as error:
        facts["error"] = f"nvidia-smi failed: {error}"
    return facts


def listed_gpus(program: str = "nvidia-smi", limit: float = LIMIT) -> list[ListedGpu]:
    """Return the GPUs in the driver's order; none if there is no such program.

    Raises:
        OSError: it cannot be started.
        subprocess.SubprocessError: it fails, or takes more than `limit` seconds.
    """
    path = shutil.which(program)
    return [] if path is None else parse_listed(_query(path, "gpu", _LISTED_FIELDS, limit))


def parse_listed(text: str) -> list[ListedGpu]:
    """The GPUs in nvidia-smi's CSV of `_LISTED_FIELDS`; what is no row of it is passed over."""
    return [
        ListedGpu(
            number=int(cells[0]),
            uuid=cells[1],
            memory=_bytes(cells[2]) or 0,
            free=_bytes(cells[3]),
            driver=cells[4],
            name=", ".join(cells[5:]),
        )
        for cells in _rows(text)
        if len(cells) >= 6 and cells[0].isdecimal()
    ]


def users(text: str) -> list[dict[str, Any]]:
    """Rows of nvidia-smi's CSV of processes: uuid, pid and memory in bytes (None without permission)."""
    return [
        {"uuid": cells[0], "pid": int(cells[1]), "memory": _bytes(cells[2])}
        for cells in _rows(text)
        if len(cells) >= 3 and cells[1].isdecimal()
    ]


def _device(gpu: ListedGpu) -> dict[str, Any]:
    return {
        "index": gpu.number,
        "uuid": gpu.uuid,
        "name": gpu.name,
        "memory": gpu.memory,
        "free": gpu.free,
        "users": [],
    }


def _query(path: str, what: str, fields: str, limit: float) -> str:
    return _ask([path, f"--query-{what}={fields}", "--format=csv,noheader,nounits"], limit)


def _rows(text: str) -> Iterator[list[str]]:
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        yield [cell.strip() for cell in row]


def _ask(argv: Sequence[str], limit: float) -> str:
    result = subprocess.run(argv, capture_output=True, text=True, timeout=limit, check=True, errors="replace")
    return result.stdout


def _bytes(text: str) -> int | None:
    """Bytes of a number of MiB; None for "[N/A]"."""
    return int(text) * _MIB if text.isdecimal() else None


# GPUs' numbers: by NVML where the node's Python has it, else by nvidia-smi, else none.

SMI_TIMEOUT = 5.0
"""Seconds; a driver in trouble makes nvidia-smi hang."""
SMI_FIELDS = (
    ("utilization.gpu", "util", 1.0),
    ("memory.used", "memory_used_bytes", 2.0**20),
    ("memory.total", "memory_total_bytes", 2.0**20),
    ("temperature.gpu", "temperature_c", 1.0),
    ("power.draw", "power_w", 1.0),
    ("clocks.sm", "clock_mhz", 1.0),
    ("power.limit", "power_limit_w", 1.0),
    ("pcie.link.width.current", "pcie_width", 1.0),
)
"""nvidia-smi's field, our series, and what its unit is multiplied by to get ours."""
MEMORY_CLOCK = ("clocks.mem", "memory_clock_mhz", 1.0)
MIG_MODE = ("mig.mode.current", "mig", 1.0)
_ENABLED = "Enabled"
_BY_NEW_NAME = ("clocks_event_reasons.active", "throttle_reasons", 1.0)
_BY_OLD_NAME = ("clocks_throttle_reasons.active", "throttle_reasons", 1.0)
DETAILED_FIELDS = (
    (*SMI_FIELDS, MEMORY_CLOCK, _BY_NEW_NAME, MIG_MODE),
    (*SMI_FIELDS, MEMORY_CLOCK, _BY_OLD_NAME, MIG_MODE),
    (*SMI_FIELDS, MEMORY_CLOCK, _BY_OLD_NAME),
    SMI_FIELDS,
)
"""The same for a monitored node, tried in this order: older drivers know the reasons by another name."""
UNKNOWN_FIELD = "is not a valid field"
"""Part of what nvidia-smi prints if its driver does not know a field; it then answers nothing else."""
_REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
"""NVML's functions for the bit mask of reasons, under their new and their old name."""

Sampler = Callable[[], "dict[str, float]"]


def gpu_sampler(*, is_detailed: bool = False) -> Sampler | None:
    """Return a sampler of `gpu<i>_` util (percent), memory_used_bytes, memory_total_bytes, temperature_c,
    power_w, clock_mhz (of its multiprocessors), power_limit_w and pcie_width (lanes).

    If `is_detailed`, also of memory_clock_mhz, throttle_reasons (NVML's bit mask) and mig (1 if the GPU is
    divided into MIG instances, else missing).
    None if the node has no NVIDIA GPU that can be queried. The first use may take seconds: not for the loop.
    """
    return _nvml_sampler(is_detailed=is_detailed) or _smi_sampler(
        DETAILED_FIELDS if is_detailed else (SMI_FIELDS,)
    )


def of_gpu(values: Mapping[str, float], index: int) -> dict[str, float]:
    """Return the series of one GPU, by their names without its prefix."""
    prefix = f"gpu{index}_"
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


def parse_smi(text: str, fields: Sequence[tuple[str, str, float]] = SMI_FIELDS) -> dict[str, float]:
    """Rows of `nvidia-smi --query-gpu=index,...` as CSV without header and units; "[N/A]" is left out."""
    values = {}
    for line in text.splitlines():
        index, *words = [word.strip() for word in line.split(",")]
        if not index.isdecimal():
            continue
        for (_, name, factor), word in zip(fields, words, strict=False):  # a driver may answer less
            with contextlib.suppress(ValueError):
                word = "1" if word == _ENABLED else word
                number = float(int(word, 16)) if word.startswith("0x") else float(word)
                values[f"gpu{index}_{name}"] = number * factor
    return values


def gone_devices(devices: Sequence[str]) -> list[str]:
    """Those of `devices`, by UUID or index, that nvidia-smi no longer lists; none if it fails."""
    if not devices:
        return []
    try:
        found = listed_gpus(limit=SMI_TIMEOUT)
    except (OSError, subprocess.SubprocessError):
        return []
    listed = {key for gpu in found for key in (gpu.uuid, str(gpu.number))}
    return [device for device in devices if device not in listed] if listed else []


def _smi_sampler(tried: Sequence[Sequence[tuple[str, str, float]]]) -> Sampler | None:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    left = list(tried)

    def sample() -> dict[str, float]:
        while True:
            names = ",".join(("index", *(field for field, _, _ in left[0])))
            argv = [program, f"--query-gpu={names}", "--format=csv,noheader,nounits"]
            result = subprocess.run(argv, capture_output=True, text=True, timeout=SMI_TIMEOUT, check=False)
            if result.returncode == 0:
                return parse_smi(result.stdout, left[0])
            if len(left) == 1 or UNKNOWN_FIELD not in result.stdout + result.stderr:
                return {}
            del left[0]

    return sample


def _nvml_sampler(*, is_detailed: bool) -> Sampler | None:
    nvml, handles = _nvml_handles()
    if not handles:
        return None

    def sample() -> dict[str, float]:
        values: dict[str, float] = {}
        for index, handle in enumerate(handles):
            values.update(_nvml_values(nvml, index, handle))
            if is_detailed:
                values.update(_nvml_details(nvml, index, handle))
        return values

    return sample


def _nvml_handles() -> tuple[Any, list[Any]]:
    """Return NVML and its handles of all GPUs; no handles if it cannot be used."""
    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
        count = nvml.nvmlDeviceGetCount()
        return nvml, [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
    except Exception:  # noqa: BLE001 - no package, no driver, no permission: there is nothing to ask
        return None, []


def _nvml_details(nvml: Any, index: int, handle: Any) -> dict[str, float]:
    values = {}
    with contextlib.suppress(nvml.NVMLError):
        clock = nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)
        values[f"gpu{index}_memory_clock_mhz"] = float(clock)
    with contextlib.suppress(nvml.NVMLError, AttributeError):  # GPUs without MIG, old packages
        if nvml.nvmlDeviceGetMigMode(handle)[0]:
            values[f"gpu{index}_mig"] = 1.0
    for name in _REASONS:
        read = getattr(nvml, name, None)  # a package may have one of them, and the driver another
        if read is not None:
            with contextlib.suppress(nvml.NVMLError):
                values[f"gpu{index}_throttle_reasons"] = float(read(handle))
                break
    return values


def _nvml_values(nvml: Any, index: int, handle: Any) -> dict[str, float]:
    readings: dict[str, Callable[[], float]] = {
        "util": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        "memory_used_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used,
        "memory_total_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total,
        "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        "power_w": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000.0,
        "clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        "power_limit_w": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000.0,
        "pcie_width": lambda: nvml.nvmlDeviceGetCurrPcieLinkWidth(handle),
    }
    values = {}
    for name, read in readings.items():
        with contextlib.suppress(nvml.NVMLError):  # this device does not tell it
            values[f"gpu{index}_{name}"] = float(read())
    return values


# Processes that use GPUs, of all users.

UserLister = Callable[[], "list[dict[str, Any]]"]


def gpu_user_lister() -> UserLister | None:
    """Return a function that lists processes: uuid, pid and memory in bytes (None if not reported).

    With NVML also those that only draw, marked as `graphics`; nvidia-smi lists compute processes alone.

    It raises OSError or subprocess.SubprocessError if nvidia-smi fails. None if the node has no NVIDIA GPU
    that can be queried.
    """
    nvml, handles = _nvml_handles()
    if handles:
        return lambda: [user for handle in handles for user in _nvml_users(nvml, handle)]
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    return lambda: users(_query(program, "compute-apps", _USER_FIELDS, SMI_TIMEOUT))


def _nvml_users(nvml: Any, handle: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    with contextlib.suppress(nvml.NVMLError):
        uuid = nvml.nvmlDeviceGetUUID(handle)
        name = uuid.decode() if isinstance(uuid, bytes) else str(uuid)
        found += [_nvml_user(name, each) for each in nvml.nvmlDeviceGetComputeRunningProcesses(handle)]
        known = {user["pid"] for user in found}
        with contextlib.suppress(AttributeError):  # a package without it
            drawing = nvml.nvmlDeviceGetGraphicsRunningProcesses(handle)
            users_of = (_nvml_user(name, each) for each in drawing)
            found += [{**user, "graphics": True} for user in users_of if user["pid"] not in known]
    return found


def _nvml_user(uuid: str, process: Any) -> dict[str, Any]:
    memory = process.usedGpuMemory  # None if the driver does not tell
    return {"uuid": uuid, "pid": int(process.pid), "memory": None if memory is None else int(memory)}
