"""uv, where this machine has it, and projects whose packages it finds on this disk: nothing is downloaded."""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

BESIDE = Path(sys.executable).parent


@functools.cache
def uv_program() -> str:
    """Return the path of uv; the test is skipped without it."""
    found = shutil.which("uv", path=os.pathsep.join([str(BESIDE), os.environ.get("PATH", "")]))
    if found is None:
        pytest.skip("uv is not installed: packaging/test.sh adds it")
    return found


def wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> Path:
    """Write a wheel of text files."""
    stem = f"{name}-{version}"
    info = f"{stem}.dist-info"
    content = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = [f"{name},sha256={_digest(text)},{len(text)}" for name, text in content.items()]
    content[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,"]) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in content.items():
            archive.writestr(name, text)
    return path


def torch_wheel(folder: Path) -> Path:
    """Write a package torch that borrows this Python's: the real one has gigabytes."""
    found = importlib.util.find_spec("torch")
    assert found is not None
    assert found.origin is not None
    return wheel(folder, "torch", "2.13.0", {"torch_elsewhere.pth": f"{Path(found.origin).parents[1]}\n"})


def uv_project(folder: Path, wheels: Path, script: str, *packages: str) -> Path:
    """Write a project with a lock file, whose packages lie in `wheels`; return its run file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(
        f"""[project]
name = "mine"
version = "1"
requires-python = ">=3.10"
dependencies = {list(packages)!r}
[tool.uv]
find-links = ["{wheels}"]
no-index = true
"""
    )
    subprocess.run(
        [uv_program(), "lock", "--python", sys.executable],
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=60,
    )
    (folder / "train.py").write_text(textwrap.dedent(script))
    run_file = folder / "run.toml"
    run_file.write_text('[run]\nscript = "train.py"\nenvironment = "uv"\n')
    return run_file


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
