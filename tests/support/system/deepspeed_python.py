"""The Python that has DeepSpeed, where this machine has one."""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ABSENT = "DeepSpeed is not installed: packaging/test.sh adds it in .venv-deepspeed where it can be built"
"""Why a test that needs it was skipped."""

_BESIDE = Path(__file__).resolve().parents[3] / ".venv-deepspeed" / "bin" / "python"


@functools.cache
def deepspeed_python() -> str | None:
    """This interpreter, or .venv-deepspeed's beside the sources; None when neither has DeepSpeed."""
    if importlib.util.find_spec("deepspeed") is not None:
        return sys.executable
    if not _BESIDE.exists():
        return None
    probe = [str(_BESIDE), "-c", "import importlib.util as u; print(u.find_spec('deepspeed') is not None)"]
    try:
        result = subprocess.run(probe, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return str(_BESIDE) if result.stdout.strip() == "True" else None


def deepspeed_environment() -> dict[str, str]:
    """Variables for DeepSpeed on the CPU, one thread a rank; Torchdeck and tests/support on its path."""
    tests = Path(__file__).resolve().parents[2]
    path = os.pathsep.join([str(tests), str(tests.parent / "core")])
    return {**os.environ, "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
