"""System software of this machine: its name, its kernel, and NVIDIA's driver."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from torchdeck.agent.gpus.nvidia_smi import listed_gpus
from torchdeck.agent.probe.system import system_facts

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
