"""The oldest Python that nodes may have, where this machine has one."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path


@functools.cache
def python310() -> str | None:
    """Path of a Python 3.10: `python3.10` on the PATH, or one that pyenv keeps; None when there is none."""
    candidates = ["python3.10"]
    root = _output(["pyenv", "root"])
    if root is not None:
        candidates += [str(path) for path in sorted(Path(root).glob("versions/3.10.*/bin/python3.10"))]
    for candidate in candidates:
        found = _output(
            [candidate, "-c", "import sys; print(sys.version_info[:2] == (3, 10) and sys.executable)"]
        )
        if found not in (None, "False"):
            return found
    return None


def _output(argv: list[str]) -> str | None:
    try:
        result = subprocess.run(
            argv, capture_output=True, text=True, timeout=20, check=False, env=dict(os.environ)
        )
    except OSError:
        return None
    return result.stdout.strip() if result.returncode == 0 else None
