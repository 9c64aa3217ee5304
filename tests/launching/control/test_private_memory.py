"""A process that holds passwords."""

from pathlib import Path

import pytest

from support.system.users import User, others_python

pytestmark = pytest.mark.processes

PROGRAM = """
import ctypes, os, subprocess, sys
from torchdeck.launching.control.run_secrets import keep_memory_private

def looked_at():
    asking = f"open('/proc/{os.getpid()}/environ').read()"
    asked = subprocess.run([sys.executable, "-c", asking], capture_output=True, text=True)
    return "PermissionError" not in asked.stderr

print(looked_at())
keep_memory_private()
print(looked_at(), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
print(os.listdir("/proc/self/fd") != [], open("/proc/self/stat").read() != "")
"""


@pytest.mark.root
def test_not_even_the_same_user_can_read_it() -> None:
    """What a process itself needs of /proc stays readable to it, and its children are as ever."""
    _, output, errors = User(65534, Path("/")).run([others_python(), "-c", PROGRAM], cwd=Path("/"))
    assert (output.splitlines(), errors) == (["True", "False 0", "True True"], "")
