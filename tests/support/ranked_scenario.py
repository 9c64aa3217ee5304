"""Runs a scenario of real ranks from a test."""

import json
from pathlib import Path
from typing import Any

from support.torch_process import run_torch
from support.torch_servers import TESTS

LIMIT = 200.0


def scenario(folder: Path, name: str, *arguments: str, limit: float = LIMIT) -> Any:
    """What `module.function` in support/checkpoint_scenarios prints; its ranks are real processes."""
    argv = ["-m", "support.checkpoint_ranks", name, str(folder), *arguments]
    done = run_torch(argv, cwd=TESTS, limit=limit)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
