"""Files that the real packages wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.written.written_files import written_files


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    return written_files(tmp_path_factory, worker_id)
