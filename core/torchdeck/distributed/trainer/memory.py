"""Memory of this rank."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

import torch

_STATM = Path("/proc/self/statm")


def memory_of_rank(device: torch.device) -> dict[str, float]:
    """memory_bytes and memory_peak_bytes: torch's allocations on a GPU, the resident set on the CPU."""
    if device.type == "cuda":
        return {
            "memory_bytes": float(torch.cuda.memory_allocated(device)),
            "memory_peak_bytes": float(torch.cuda.max_memory_allocated(device)),
        }
    # getrusage counts kibibytes on Linux, bytes on macOS
    unit = 1 if sys.platform == "darwin" else 1024
    peak = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
    return {"memory_bytes": _resident() or peak, "memory_peak_bytes": peak}


def _resident() -> float | None:
    try:
        return float(int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError, IndexError):
        return None
