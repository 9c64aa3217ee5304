"""Files that the real packages wrote, once for all tests of readers."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

import pytest

from support.system.trainers_python import ABSENT, trainers_python
from support.training import written_metrics


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Folder with wandb's, MLflow's, Lightning's, the Hugging Face Trainer's and torchtitan's files.

    The workers of a run share it: importing these packages takes a quarter of a minute.
    """
    python = trainers_python()
    if python is None:
        pytest.skip(ABSENT)
    if worker_id == "master":
        return _write(python, tmp_path_factory.mktemp("written"))
    shared = tmp_path_factory.getbasetemp().parent / "written"
    with shared.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.exists():
            _write(python, tmp_path_factory.mktemp("written")).rename(shared)
    return shared


def _write(python: str, folder: Path) -> Path:
    done = subprocess.run(
        [python, written_metrics.__file__, str(folder)],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return folder
