"""docs/compat.md names every example of the documents, and the tests that make it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.documents.blocks import DOCUMENTS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/compat.md"
EXAMPLES = {"batch_plans": 10, "ddp_fsdp": 9, "strategies": 11, "augmentation": 27, "object_api": 25}
"""Examples of each document; two have their variables as one more."""
VARIABLES = ("batch_plans", "object_api")


@pytest.mark.processes
def test_tables_are_those_of_the_tests_marks(tmp_path: Path) -> None:
    page = tmp_path / "compat.md"
    shutil.copyfile(PAGE, page)
    plugin = (
        "-p",
        "support.documents.block_table",
        f"--block-table={page}",
        "-p",
        "no:cacheprovider",
        f"--basetemp={tmp_path / 'inner'}",
    )
    options = ("--collect-only", "-q", "-n", "0", "--soak", *plugin)
    command = [sys.executable, "-m", "pytest", "tests/compat", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert page.read_text() == PAGE.read_text()


def test_every_example_is_listed() -> None:
    listed = {name: len(document.blocks) for name, document in DOCUMENTS.items()}
    assert listed == {name: number + (name in VARIABLES) for name, number in EXAMPLES.items()}
