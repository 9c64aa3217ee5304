"""docs/programs.md names what the tests show, no more and no less."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.processes
def test_table_is_that_of_the_tests_marks(tmp_path: Path) -> None:
    page = tmp_path / "programs.md"
    shutil.copyfile(ROOT / "docs/programs.md", page)
    plugin = (
        "-p",
        "support.training.program_table",
        f"--program-table={page}",
        "-p",
        "no:cacheprovider",
        f"--basetemp={tmp_path / 'inner'}",
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "tests/trainers",
        "--collect-only",
        "--soak",
        "-q",
        "-n0",
        *plugin,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert page.read_text() == (ROOT / "docs/programs.md").read_text()
