"""What all tests share: a Torchdeck home of their own, and the choice between a sample and everything."""

from pathlib import Path

import pytest
from hypothesis import settings

RUN_VARIABLES = (
    "TORCHDECK_RUN_ID",
    "TORCHDECK_RUN_DIR",
    "TORCHDECK_ATTEMPT",
    "TORCHDECK_RESUME",
    "TORCHDECK_RECIPE",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--soak", action="store_true", help="run every variant of faults and journeys, not a sample"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Properties are tried on the same examples every time; a soak draws new ones."""
    settings.register_profile("sample", derandomize=True)
    if not config.getoption("--soak"):
        settings.load_profile("sample")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--soak"):
        return
    config.hook.pytest_deselected(items=[item for item in items if "soak" in item.keywords])
    items[:] = [item for item in items if "soak" not in item.keywords]


@pytest.fixture(autouse=True)
def torchdeck_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home for this test alone; nothing of the person who runs the tests is read or written."""
    home = tmp_path / "torchdeck-home"
    monkeypatch.setenv("TORCHDECK_HOME", str(home))
    for name in RUN_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return home
