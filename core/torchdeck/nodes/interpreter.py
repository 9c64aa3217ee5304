"""Packages installed in a Python interpreter, determined without importing any of them."""

from __future__ import annotations

import os
import platform
import shutil
import sys

from torchdeck.agent.probe.pythons import NotAPythonError, ask_paths, installed, versions
from torchdeck.contract.inventory import InterpreterFacts, Version

OLDEST_PYTHON: Version = (3, 10)
"""Oldest version that ranks can run on."""


def probe_interpreter(
    path: str | None = None, limit: float = 20.0, *, deepspeed: bool = False
) -> InterpreterFacts:
    """Return the versions of Python, torch and numpy of the interpreter at `path`.

    Args:
        path: absolute, or a name looked up on PATH; None is the Python that runs this.
        limit: timeout in seconds for the answer of another interpreter.
        deepspeed: whether to report DeepSpeed, too.

    Returns:
        Facts; `.error` says what is wrong if it does not exist, will not run or does not answer.
    """
    if path is None:
        path = sys.executable
    executable = path if os.sep in path else (shutil.which(path) or path)
    version, folders = platform.python_version(), [folder for folder in sys.path if folder]
    if executable != sys.executable:
        try:
            version, folders = ask_paths(executable, limit)
        except NotAPythonError as error:
            return InterpreterFacts(executable, error=str(error))
    found = versions(folders)
    return InterpreterFacts(
        executable,
        version,
        found["torch"],
        found["numpy"],
        deepspeed=found["deepspeed"] if deepspeed else None,
    )


def installed_version(package: str) -> str | None:
    """Return the version of an installed package from its metadata; None if it is not installed."""
    name = package.lower().replace("-", "_")
    for folder in filter(None, sys.path):
        for each, version in installed(folder):
            if each == name:
                return version
    return None
