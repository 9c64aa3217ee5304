"""torchrun as runs start it: found by its path, whatever lies in the working directory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from torchdeck.distributed import torchrun

pytestmark = pytest.mark.processes

SCRIPT = """
import sys, torch
print("rank said", sys.argv[1:], torch.distributed.is_torchelastic_launched())
"""


def test_modules_of_the_working_directory_are_not_taken_for_ours(tmp_path: Path) -> None:
    """A user's own `torchdeck.py`, or one named like a module next to torchrun.py, changes nothing."""
    for name in ("torchdeck.py", "precision.py"):
        (tmp_path / name).write_text("raise RuntimeError('not ours')\n")
    (tmp_path / "train.py").write_text(SCRIPT)
    shipped = Path(torchrun.__file__).parents[2]
    words = ["--standalone", "--nproc-per-node", "1", "train.py", "a b"]
    done = subprocess.run(
        [sys.executable, str(torchrun.__file__), *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(shipped)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "rank said ['a b'] True" in done.stdout, done.stderr
    assert done.returncode == 0
