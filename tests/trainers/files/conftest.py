"""Files that the real packages wrote, once for all tests of readers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.system.trainers_python import ABSENT, trainers_python
from support.training import written_metrics


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with wandb's, MLflow's, Lightning's, the Hugging Face Trainer's and torchtitan's files."""
    python = trainers_python()
    if python is None:
        pytest.skip(ABSENT)
    folder = tmp_path_factory.mktemp("written")
    done = subprocess.run(
        [python, written_metrics.__file__, str(folder)],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return folder
