"""torchrun as runs start it: found by its path, whatever lies in the working directory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from torchdeck.distributed import torchrun

SCRIPT = """
import sys, numpy, torch
torch.ones(1).numpy()
print("rank said", sys.argv[1:], torch.distributed.is_torchelastic_launched())
"""


def test_modules_of_the_working_directory_are_not_taken_for_ours(tmp_path: Path) -> None:
    """A person's own `torchdeck.py`, or one called like a module beside torchrun.py, changes nothing.

    Nor is a rank without numpy, which torchrun itself goes without.
    """
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
    assert "numpy" not in done.stderr.lower()


def test_what_it_does_without_is_there_again() -> None:
    """Neither was imported with torchrun, nobody was told, and who imports them then gets them."""
    code = (
        "import sys\n"
        "from torchdeck.distributed.torchrun import only_what_starts_ranks\n"
        "with only_what_starts_ranks():\n"
        "    import torch.distributed.run\n"
        "assert not {'numpy', 'torch._meta_registrations'} & set(sys.modules)\n"
        "import numpy, torch._meta_registrations as kernels\n"
        "assert kernels.register_meta\n"
        "assert torch.mm(torch.ones(2, 3, device='meta'), torch.ones(3, 4, device='meta')).shape == (2, 4)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("needs", ["import numpy", "from torch._meta_registrations import register_meta"])
def test_a_torch_that_needs_more_is_imported_whole(tmp_path: Path, needs: str) -> None:
    """Some other version, perhaps: it begins again as torchrun itself, with the same arguments."""
    (tmp_path / "torch" / "distributed").mkdir(parents=True)
    (tmp_path / "torch" / "__init__.py").write_text(needs + "\n")
    (tmp_path / "torch" / "_meta_registrations.py").write_text("register_meta = print\n")
    (tmp_path / "torch" / "distributed" / "__init__.py").touch()
    (tmp_path / "torch" / "distributed" / "run.py").write_text(
        "import sys\n"
        "def main():\n"
        "    print('torchrun', sys.argv[1:])\n"
        "if __name__ == '__main__':\n"
        "    main()\n"
    )
    done = subprocess.run(
        [sys.executable, str(torchrun.__file__), "--nnodes", "1", "a b"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "torchrun ['--nnodes', '1', 'a b']\n", done.stderr
    assert done.returncode == 0
