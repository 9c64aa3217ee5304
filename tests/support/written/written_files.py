"""Files that the real packages wrote, once for all tests of readers and all workers of a run."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

import pytest

from support.system.trainers_python import ABSENT, trainers_python
from support.written import written_metrics


def written_files(factory: pytest.TempPathFactory, worker: str) -> Path:
    """Folder with wandb's, MLflow's, Lightning's, the Hugging Face Trainer's and torchtitan's files.

    Importing these packages takes a quarter of a minute.

    Args:
        factory: of the temporary folders of this process.
        worker: pytest-xdist's name of this process, "master" if it is the only one.
    """
    python = trainers_python()
    if python is None:
        pytest.skip(ABSENT)
    shared = factory.getbasetemp() / "written"
    if worker != "master":
        shared = factory.getbasetemp().parent / "written"  # of all workers of this run
    with shared.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.exists():
            _write(python, factory.mktemp("being-written")).rename(shared)
    return shared


def _write(python: str, folder: Path) -> Path:
    done = subprocess.run(
        [python, written_metrics.__file__, str(folder)],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return folder
