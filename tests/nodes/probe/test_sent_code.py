"""The code that is sent to look at a node."""

import subprocess
import sys

import pytest

from torchdeck.nodes.probe.probe_session import LOADER, payload

pytestmark = pytest.mark.processes


def test_every_module_that_is_sent_finds_all_it_imports() -> None:
    """Where no Torchdeck is installed: a module that one of them has come to import must be sent, too."""
    imports = "for name in sent: importlib.import_module(name)\n"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LOADER.replace("\nmain()\n", f"\nimport importlib\n{imports}")],
        input=payload(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stderr.decode() == ""
    assert done.returncode == 0
