"""Packages installed in a Python interpreter, determined without importing any of them."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from torchdeck.contract.inventory import InterpreterFacts, Version

OLDEST_PYTHON: Version = (3, 10)
"""Oldest version that ranks can run on."""
_QUESTION = """
import json, platform
from importlib import metadata
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
print(json.dumps([platform.python_version(), version("torch"), version("numpy"), version("deepspeed")]))
"""


def probe_interpreter(
    path: str | None = None, limit: float = 20.0, *, deepspeed: bool = False
) -> InterpreterFacts:
    """Return the versions of Python, torch and numpy of the interpreter at `path`.

    Args:
        path: absolute, or a name looked up on PATH; None is the Python that runs this.
        limit: timeout in seconds for the answer of another interpreter.
        deepspeed: whether to look for DeepSpeed too, which takes a little longer.

    Returns:
        Facts; `.error` says what is wrong if it does not exist, will not run or does not answer.
    """
    if path is None:
        path = sys.executable
    executable = path if os.sep in path else (shutil.which(path) or path)
    if executable == sys.executable:
        return InterpreterFacts(
            executable,
            platform.python_version(),
            installed_version("torch"),
            installed_version("numpy"),
            deepspeed=installed_version("deepspeed") if deepspeed else None,
        )
    return _ask(executable, limit)


def installed_version(package: str) -> str | None:
    """Return the version of an installed package from its metadata; None if it is not installed."""
    # the folder's name contains it: importlib.metadata alone takes 20 ms to import
    for entry in sys.path:
        with contextlib.suppress(OSError):  # an unreadable folder, which Python skips, too
            for found in sorted(Path(entry).glob(f"{package}-*.dist-info")):
                return found.name.removeprefix(f"{package}-").removesuffix(".dist-info")
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _ask(executable: str, limit: float) -> InterpreterFacts:
    def unknown(why: str) -> InterpreterFacts:
        return InterpreterFacts(executable, error=why)

    try:
        # run in /, because -c puts the working directory on the module path
        answer = subprocess.run(
            [executable, "-c", _QUESTION], capture_output=True, text=True, timeout=limit, check=False, cwd="/"
        )
    except FileNotFoundError:
        return unknown("there is no such file")
    except PermissionError:
        return unknown("it may not be executed")
    except subprocess.TimeoutExpired:
        return unknown(f"it did not answer within {limit:g} s")
    except (OSError, ValueError) as error:
        return unknown(f"it could not be started: {error}")
    try:
        python, torch, numpy, deepspeed = json.loads(answer.stdout.splitlines()[-1])
        return InterpreterFacts(
            executable, str(python), _optional(torch), _optional(numpy), deepspeed=_optional(deepspeed)
        )
    except (ValueError, IndexError, TypeError):
        last = (answer.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        return unknown(f"it is not a working Python (exit code {answer.returncode}: {last[:200]})")


def _optional(value: object) -> str | None:
    return None if value is None else str(value)
