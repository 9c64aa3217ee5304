"""packaging/quickstart.sh after its installation, as on a clean clone with an empty home."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from support.cli.command import Command

ROOT = Path(__file__).parents[2]
SMALL = (
    "limits.memory='off'",
    "training.steps=2",
    "training.warmup_steps=1",
    "training.eval_batches=1",
    "data.max_bytes=200000",
    "model.layers=1",
)


def installed_clone(folder: Path) -> Path:
    """Return a clone whose .venv is the environment of this test, installed as quickstart.sh does it."""
    shutil.copytree(ROOT / "packaging", folder / "packaging")
    for name in ("pyproject.toml", "resources"):
        (folder / name).symlink_to(ROOT / name)
    venv = folder / ".venv"
    venv.mkdir()
    (venv / "bin").symlink_to(Path(sys.prefix) / "bin")
    stamp = "source packaging/environment.sh; install_stamp gui,train >.venv/.torchdeck-installed"
    subprocess.run(["bash", "-c", stamp], cwd=folder, check=True, timeout=20)
    return folder


def test_the_quickstart_trains_and_says_how_to_continue(tmp_path: Path, torchdeck_home: Path) -> None:
    """Its arguments are those of the command, and so is its exit code."""
    clone = installed_clone(tmp_path / "clone")

    def quickstart(*values: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [
                "bash",
                clone / "packaging/quickstart.sh",
                *(word for value in values for word in ("--set", value)),
            ],
            cwd=tmp_path,
            env={**os.environ, "HOME": str(tmp_path / "home")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    refused = quickstart("training.steps=0")
    assert refused.returncode == 2, refused.stderr
    assert "training.steps" in refused.stderr
    done = quickstart(*SMALL)
    assert done.returncode == 0, done.stderr
    assert f"The same in a window: {clone}/.venv/bin/torchdeck" in done.stderr
    assert "Installing" not in refused.stdout + done.stdout
    (run,) = Command(torchdeck_home).runs()
    assert list(run.checkpoints.glob("*/manifest.json"))
