"""Published data of GPUs by name: for nodes that a run file describes and that were not probed.

Memory is the total that nvidia-smi reports (memory.total, in MiB), what the driver reserves included. It is
not the gigabytes of a product's name: an H100 80GB has 81,559 MiB, an A100 80GB 81,920. A process gets one or
two hundredths less: of the 40,960 MiB of an A100 40GB CUDA offers 40,441, of the 15,360 of a T4 15,110. The
run file takes precedence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_MIB = 2**20


@dataclass(frozen=True)
class GpuModel:
    """One kind of GPU."""

    name: str
    memory_bytes: int
    """Total memory, as nvidia-smi shows it; a process gets somewhat less."""
    link_bytes: int | None = None
    """Bytes/s that one GPU sends to the others of its node over NVLink, in one direction: half of the
    total of both directions in NVIDIA's data sheets. None if there is no NVLink, or not always.
    """


_MODELS = (
    GpuModel("B200", 183_359 * _MIB, 900 * 10**9),  # NVLink 5: 1,800 GB/s in both directions
    GpuModel("H200", 143_771 * _MIB, 450 * 10**9),  # NVLink 4: 900 GB/s
    GpuModel("H100", 81_559 * _MIB, 450 * 10**9),
    GpuModel("H100 PCIe", 81_559 * _MIB),
    GpuModel("A100-80GB", 81_920 * _MIB, 300 * 10**9),  # NVLink 3: 600 GB/s
    GpuModel("A100-40GB", 40_960 * _MIB, 300 * 10**9),
    GpuModel("A100 80GB PCIe", 81_920 * _MIB),
    GpuModel("A100-PCIE-40GB", 40_960 * _MIB),
    GpuModel("V100-32GB", 32_768 * _MIB, 150 * 10**9),  # NVLink 2: 300 GB/s
    GpuModel("V100-16GB", 16_384 * _MIB, 150 * 10**9),
    GpuModel("L40S", 46_068 * _MIB),
    GpuModel("L4", 23_034 * _MIB),
    GpuModel("A40", 46_068 * _MIB),
    GpuModel("A10G", 23_028 * _MIB),
    GpuModel("T4", 15_360 * _MIB),
    GpuModel("RTX 4090", 24_564 * _MIB),
    GpuModel("RTX 3090", 24_576 * _MIB),
)

_OTHER_NAMES: Mapping[str, str] = {
    "H100 80GB HBM3": "H100",
    "H100 SXM": "H100",
    "H100 SXM5": "H100",
    "H200 SXM": "H200",
    "A100-SXM4-80GB": "A100-80GB",
    "A100 SXM 80GB": "A100-80GB",
    "A100-SXM4-40GB": "A100-40GB",
    "A100 SXM 40GB": "A100-40GB",
    "V100-SXM2-32GB": "V100-32GB",
    "V100-SXM2-16GB": "V100-16GB",
    "Tesla T4": "T4",
}


def gpu_model(name: str) -> GpuModel | None:
    """Return the data of the GPU called `name`, by the driver's name or a short one; None if unknown."""
    return _BY_NAME.get(_plain(name))


def gpu_names() -> list[str]:
    """Return the short names, newest first."""
    return [model.name for model in _MODELS]


def _plain(name: str) -> str:
    """Return a name without manufacturer, case, spaces and dashes."""
    return re.sub(r"nvidia|geforce|[^a-z0-9]", "", name.lower())


_BY_NAME: Mapping[str, GpuModel] = {
    _plain(spelling): model
    for model in _MODELS
    for spelling in (model.name, *(other for other, name in _OTHER_NAMES.items() if name == model.name))
}
