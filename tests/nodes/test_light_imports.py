"""What the window and the command line import of nodes leaves paramiko alone until a connection is made."""

import subprocess
import sys
from pathlib import Path

import pytest

import torchdeck.nodes

pytestmark = pytest.mark.processes

ROOT = Path(torchdeck.nodes.__path__[0])


def test_no_module_of_the_nodes_imports_paramiko_by_itself() -> None:
    """It takes 0.2 s; nor cryptography, which takes half of that, nor keyring."""
    names = [
        ".".join(("torchdeck", "nodes", *path.relative_to(ROOT).with_suffix("").parts))
        for path in sorted(ROOT.rglob("*.py"))
        if path.name not in ("__init__.py", "__main__.py")
    ]
    assert "torchdeck.nodes.ssh.connection" in names
    code = f"import importlib, sys\nfor name in {names!r}: importlib.import_module(name)\n"
    code += "import torchdeck.cli.nodes.nodes_command\n"
    code += "print(sorted({'paramiko', 'cryptography', 'keyring', 'torch'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"
