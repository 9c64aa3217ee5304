"""Runs a scenario of real ranks from a test."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
LIMIT = 200.0


def scenario(folder: Path, name: str, *arguments: str, limit: float = LIMIT) -> Any:
    """What a scenario of support/checkpoint_scenarios.py prints; its ranks are real processes."""
    done = subprocess.run(
        [sys.executable, "-m", "support.checkpoint_ranks", name, str(folder), *arguments],
        cwd=TESTS,
        capture_output=True,
        text=True,
        check=False,
        timeout=limit,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
