"""Links over pipes to a folder of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.links.linked import LinkedRun, linked


@pytest.fixture
def run(tmp_path: Path) -> Iterator[LinkedRun]:
    """A run with a node that has nothing yet, and a link to it that was not started."""
    with linked(tmp_path) as made:
        yield made
