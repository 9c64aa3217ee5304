"""No process of a test's runs outlives the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.controlled_run import nothing_left


@pytest.fixture
def home(torchdeck_home: Path) -> Iterator[Path]:
    """The test's home; whatever its runs started is ended with it."""
    with nothing_left(torchdeck_home):
        yield torchdeck_home
