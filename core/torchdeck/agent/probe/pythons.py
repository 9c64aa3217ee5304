"""Pythons of a node and what they have installed, by their files; torch is imported apart, if asked."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from torchdeck.contract.bounded_file import read_bounded

PACKAGES = ("torch", "numpy", "deepspeed")
LIMIT = 20.0
"""Seconds another interpreter may take to answer without importing torch."""
DEEP_LIMIT = 60.0
"""Seconds that importing torch may take."""
_VERSION_LIMIT = 1 << 20
"""Bytes of torch/version.py."""
_PATHS = "import json, sys; print(json.dumps(['%d.%d.%d' % sys.version_info[:3], sys.path]))"
_DEEP = """
import json, torch
cuda = torch.cuda.is_available()
has_nccl = cuda and torch.distributed.is_nccl_available()
nccl = ".".join(map(str, torch.cuda.nccl.version())) if has_nccl else None
print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda, "nccl": nccl,
                  "devices": torch.cuda.device_count() if cuda else 0,
                  "gloo": torch.distributed.is_available() and torch.distributed.is_gloo_available()}))
"""


def own_python() -> dict[str, Any]:
    """The Python that runs this, which is the one that runs would use.

    It is asked in a process of its own: this one is isolated (`-I`), and sees neither PYTHONPATH, which an
    activation script or a module system sets, nor the user's site-packages. Ranks see both.
    """
    found = asked_python(sys.executable)
    if found["error"]:
        found = facts_of(sys.executable, sys.version.split()[0], sys.path)
    return {**found, "chosen": True}


def other_pythons(most: int = 8) -> Iterator[dict[str, Any]]:
    """Further Pythons on PATH, each once, new enough for torchrun or not."""
    seen = {os.path.realpath(sys.executable)}
    for path in _candidates():
        real = os.path.realpath(path)
        if real in seen or len(seen) > most:
            continue
        seen.add(real)
        found = asked_python(path)
        if not found["error"]:  # a shim of a version manager, for a Python that is not there
            yield {**found, "chosen": False}


def asked_python(path: str, limit: float = LIMIT) -> dict[str, Any]:
    """Return what the Python at `path` has, found by asking it for its package paths."""
    try:
        return facts_of(path, *ask_paths(path, limit))
    except NotAPythonError as error:
        return {**facts_of(path, "", ()), "error": f"it cannot be asked: {error}"}


class NotAPythonError(Exception):
    """A program is no working Python; the message says why."""


def ask_paths(path: str, limit: float = LIMIT) -> tuple[str, list[str]]:
    """Return version and package paths of the Python at `path`. Raises NotAPythonError."""
    try:
        # from /, as -c puts the working directory on the module path
        answer = subprocess.run(
            [path, "-c", _PATHS], capture_output=True, text=True, timeout=limit, check=False, cwd="/"
        )
    except FileNotFoundError:
        raise NotAPythonError("there is no such file") from None
    except PermissionError:
        raise NotAPythonError("it is not executable") from None
    except subprocess.TimeoutExpired:
        raise NotAPythonError(f"it did not answer within {limit:g} s") from None
    except (OSError, ValueError) as error:
        raise NotAPythonError(f"it could not be started: {error}") from error
    try:
        version, folders = json.loads(answer.stdout.splitlines()[-1])
        return str(version), [str(folder) for folder in folders]
    except (ValueError, TypeError, IndexError, RecursionError):
        last = (answer.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        why = f"it is not a working Python (exit code {answer.returncode}: {last[:200]})"
        raise NotAPythonError(why) from None


def deep_python(path: str, limit: float = DEEP_LIMIT) -> dict[str, Any]:
    """Return torch's own report, imported in a process of its own; `error` says why it cannot be."""
    try:
        answer = subprocess.run(
            [path, "-c", _DEEP], capture_output=True, text=True, timeout=limit, check=False, cwd="/"
        )
    except subprocess.TimeoutExpired:
        return {"error": f"importing torch took more than {limit:g} s"}
    except OSError as error:
        return {"error": f"it cannot be started: {error}"}
    if answer.returncode != 0:
        last = (answer.stderr.strip().splitlines() or [f"exit code {answer.returncode}"])[-1]
        return {"error": f"torch cannot be imported: {last[:300]}"}
    try:
        found = dict(json.loads(answer.stdout.splitlines()[-1]))
    except (ValueError, TypeError, IndexError, RecursionError):
        return {"error": "importing torch printed unexpected output"}
    return {**found, "error": ""}


def versions(folders: Iterable[str]) -> dict[str, str | None]:
    """Versions of the packages in `folders` by the names of their metadata, as the first folder has them."""
    found: dict[str, str | None] = dict.fromkeys((*PACKAGES, "nccl"))
    for folder in folders:
        for name, version in installed(folder):
            key = "nccl" if name.startswith("nvidia_nccl_cu") else name
            if key in found and found[key] is None:
                found[key] = version
    return found


def cuda_of_torch(folders: Iterable[str]) -> str | None:
    """The CUDA that torch was built for, as its version.py says; None on CPU builds and without torch."""
    for folder in folders:
        path = Path(folder) / "torch" / "version.py"
        try:
            tree = ast.parse(read_bounded(path, _VERSION_LIMIT))
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        for node in tree.body:
            if isinstance(node, ast.AnnAssign):
                target: ast.expr = node.target
            elif isinstance(node, ast.Assign) and len(node.targets) == 1:
                target = node.targets[0]
            else:
                continue
            if isinstance(target, ast.Name) and target.id == "cuda" and isinstance(node.value, ast.Constant):
                return None if node.value.value is None else str(node.value.value)
        return None
    return None


def facts_of(executable: str, version: str, folders: Iterable[str]) -> dict[str, Any]:
    """Return what a Python of this version has in `folders`, by the files there."""
    folders = [folder for folder in folders if folder]
    return {
        "executable": executable,
        "version": version,
        **versions(folders),
        "cuda": cuda_of_torch(folders),
        "error": "",
    }


def installed(folder: str) -> Iterator[tuple[str, str]]:
    """(normalised name, version) of each distribution whose metadata lies in `folder`."""
    try:
        names = [entry.name for entry in Path(folder).iterdir()]
    except OSError:
        return
    for entry in sorted(names):
        stem, dot, kind = entry.rpartition(".")
        if dot and kind in ("dist-info", "egg-info"):
            name, _, rest = stem.partition("-")
            yield name.lower().replace("-", "_"), rest.partition("-py")[0]


def _candidates() -> Iterator[str]:
    for name in ("python3", *(f"python3.{minor}" for minor in range(15, 8, -1))):
        path = shutil.which(name)
        if path is not None:
            yield path
