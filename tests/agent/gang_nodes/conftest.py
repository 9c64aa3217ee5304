"""Gangs of several nodes on this machine, cleaned up whatever a test does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.agents.agent_run import cleaning, script
from support.agents.gang_run import GangRun, make_gang_plan
from support.agents.gang_scripts import Maker


@pytest.fixture
def make_gang(tmp_path: Path) -> Iterator[Maker]:
    """Makes a run of a script's text on several nodes; keywords are `make_gang_plan`'s."""
    runs: list[GangRun] = []

    def make(text: str, secrets: dict[str, str] | None = None, **plan: Any) -> GangRun:
        folder = tmp_path / f"code {len(runs)}"
        folder.mkdir()
        change = plan.pop("change", lambda made: made)
        made = make_gang_plan(script(folder, text), folder, secrets=tuple(secrets or ()), **plan)
        run = GangRun(tmp_path / f"homes {len(runs)}", change(made), secrets)
        runs.append(run)
        return run

    with cleaning(runs):
        yield make
