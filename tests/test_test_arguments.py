"""packaging/test.sh passes its command line to pytest, except for the name of the fault table."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = 'set -euo pipefail; source packaging/pytest_arguments.sh; printf "%s\\n" "${pytest_arguments[@]}"'
TABLE = (
    "agent/doctor/test_faults.py",
    "agent/doctor/test_healthy.py",
    "agent/doctor/test_slow_ranks.py",
    "agent/gang_nodes/test_explained_hang.py",
    "hosts/test_explained_hangs.py",
    "integration/doctor/test_explained_hangs.py",
    "integration/doctor/test_named_stragglers.py",
)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (["--soak", "doctor"], ["--soak", "-m", "doctor"]),
        (["--soak", "doctor", "-k", "a word"], ["--soak", "-m", "doctor", "-k", "a word"]),
        (["--soak", "tests/agent/doctor"], ["--soak", "tests/agent/doctor"]),
        (["--soak", "-k", "doctor"], ["--soak", "-k", "doctor"]),
        (["--fast"], ["--fast"]),
    ],
)
def test_the_fault_table_is_selected_by_name(given: list[str], passed: list[str]) -> None:
    done = subprocess.run(
        ["bash", "-c", SCRIPT, "test.sh", *given],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout.splitlines() == passed


@pytest.mark.parametrize("file", TABLE)
def test_the_fault_table_has_all_its_files(file: str) -> None:
    assert "pytest.mark.doctor" in (ROOT / "tests" / file).read_text()
