"""Runs that are cleaned up whatever a test does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.agents.agent_run import AgentRun, Maker, cleaning, make_plan, script


@pytest.fixture
def make_run(tmp_path: Path) -> Iterator[Maker]:
    """Makes a run of a script's text; keywords are `make_plan`'s. The home's path has a space in it."""
    runs: list[AgentRun] = []
    home = tmp_path / "home of runs"

    def make(text: str, **plan: Any) -> AgentRun:
        folder = tmp_path / f"code {len(runs)}"
        folder.mkdir()
        run = AgentRun(home, make_plan(script(folder, text), folder, **plan))
        runs.append(run)
        return run

    with cleaning(runs):
        yield make
