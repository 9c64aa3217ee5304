"""The Python that has the training programs that tests launch unchanged, where this machine has one."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

ABSENT = "the training programs are not installed: packaging/test.sh adds them in .venv-trainers"
"""Why a test that needs them was skipped."""

_BESIDE = Path(__file__).resolve().parents[3] / ".venv-trainers" / "bin" / "python"


@functools.cache
def trainers_python() -> str | None:
    """Return .venv-trainers' interpreter; None if it has no transformers or no Lightning."""
    if not _BESIDE.exists():
        return None
    wanted = "import importlib.util as u; print(all(u.find_spec(n) for n in ('transformers', 'lightning')))"
    try:
        result = subprocess.run(
            [str(_BESIDE), "-c", wanted], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return str(_BESIDE) if result.stdout.strip() == "True" else None
