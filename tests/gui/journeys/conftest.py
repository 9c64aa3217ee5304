"""Journeys: the real window on a real screen, driven as a person would."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.gui.desktop import Desktop, desktop
from torchdeck.launching.requests import STOP_NOW, write_request
from torchdeck.launching.taking_over import ensure_controller
from torchdeck.runs.registry import RunRegistry
from torchdeck.runs.view import RunView


@pytest.fixture
def screen() -> Iterator[Desktop]:
    """A screen of 1280 × 720 with a window manager."""
    with desktop() as made:
        yield made


@pytest.fixture
def large_screen() -> Iterator[Desktop]:
    """A screen of twice as many pixels in each direction."""
    with desktop(2560, 1440) as made:
        yield made


@pytest.fixture
def pictures(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Where a journey's screenshots go: $TORCHDECK_SCREENSHOTS, if that is set, to be looked at."""
    folder = os.environ.get("TORCHDECK_SCREENSHOTS")
    name: str = request.node.name
    return (Path(folder) if folder else tmp_path / "pictures") / name


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home with nothing in it."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture(autouse=True)
def runs(torchdeck_home: Path) -> Iterator[RunRegistry]:
    """The runs that the window starts; what still continues at the end is stopped."""
    torchdeck_home.mkdir(mode=0o700)
    registry = RunRegistry(torchdeck_home)
    yield registry
    for view in registry.all():
        if isinstance(view, RunView) and not view.is_over:
            layout = registry.find(view.id)
            write_request(layout, STOP_NOW, "test")
            ensure_controller(layout)
