"""No process of a test's runs outlives the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agents.bundle import lay_bundle
from support.agents.controlled_run import nothing_left


@pytest.fixture
def home(torchdeck_home: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The test's home; whatever its runs started is ended with it."""
    if request.node.get_closest_marker("processes"):
        lay_bundle(torchdeck_home)
    with nothing_left(torchdeck_home):
        yield torchdeck_home
