"""Runs a scenario of real ranks from a test."""

import json
from pathlib import Path
from typing import Any

from support.ranks.torch_process import run_torch
from support.ranks.torch_servers import TESTS

LIMIT = 200.0


def scenario(folder: Path, name: str, *arguments: str, limit: float = LIMIT) -> Any:
    """What `module.function` in support/ranks/checkpoint_scenarios prints; its ranks are real processes."""
    argv = ["-m", "support.ranks.checkpoint_ranks", name, str(folder), *arguments]
    done = run_torch(argv, cwd=TESTS, limit=limit)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
