"""Memory of this rank."""

from __future__ import annotations

import resource
import sys
from contextlib import suppress
from pathlib import Path

import torch

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_CLEAR_PEAK = "5"
"""Sets VmHWM back to VmRSS; see proc_pid_clear_refs(5)."""


class RankMemory:
    """What this rank holds: torch's allocations on a GPU, the resident set on the CPU.

    Args:
        device: of the rank.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._before: float | None = None

    def mark(self) -> None:
        """From here on the resident set's growth is counted; for the moment before the model is built.

        It is not where its peak cannot be set back, as on macOS: what came before would be in it.
        """
        if self._device.type != "cuda":
            with suppress(OSError):
                _CLEAR.write_text(_CLEAR_PEAK)
                self._before, _ = _resident()

    def read(self) -> dict[str, float]:
        """memory_bytes and memory_peak_bytes; on the CPU, marked, memory_growth_peak_bytes too.

        The last is the peak less what was resident at the mark: interpreter, libraries and data. It is of the
        resident set, which holds what allocators keep for themselves, too.
        """
        if self._device.type == "cuda":
            return {
                "memory_bytes": float(torch.cuda.memory_allocated(self._device)),
                "memory_peak_bytes": float(torch.cuda.max_memory_allocated(self._device)),
            }
        now, peak = _resident()
        values = {"memory_bytes": now, "memory_peak_bytes": peak}
        if self._before is not None:
            values["memory_growth_peak_bytes"] = max(0.0, peak - self._before)
        return values


def _resident() -> tuple[float, float]:
    """The resident set in bytes, now and at its largest since the mark (or the start, where none can be)."""
    with suppress(OSError, ValueError, IndexError):
        status = _STATUS.read_text()
        return _kibibytes(status, "VmRSS:") * 1024.0, _kibibytes(status, "VmHWM:") * 1024.0
    # getrusage counts kibibytes on Linux, bytes on macOS
    peak = float(
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    )
    return peak, peak


def _kibibytes(status: str, name: str) -> int:
    return int(status.partition(name)[2].split(maxsplit=1)[0])
