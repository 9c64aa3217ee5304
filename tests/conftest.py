"""What all tests share: a Torchdeck home of their own, and the choice between a sample and everything."""

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from support.deepspeed_python import deepspeed_python
from support.hosts import TestHosts, why_no_hosts
from support.long_files import longest_first
from support.torch_servers import serve_workers
from torchdeck_app.window.qt_import import load_qt

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
    """Properties are tried on the same fifty examples every time; a soak draws three hundred new ones."""
    # a machine on which Python keeps no bytecode compiles all of Torchdeck in each of a thousand processes
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    gc.disable()  # until all is collected: of six thousand tests nothing is garbage
    if config.pluginmanager.hasplugin("pytest-qt"):  # some tests run where no Qt is
        load_qt()  # as the window does first of all: modules are imported the same way, and quicker
    # xdist would begin with the files of most tests, not with those that take longest
    config.option.loadscopereorder = False
    if config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput"):
        for server in serve_workers([python for python in {sys.executable, deepspeed_python()} if python]):
            config.add_cleanup(server.end)
    # without a deadline: an example of a busy machine takes as long as it likes
    settings.register_profile("sample", derandomize=True, max_examples=50, deadline=None)
    settings.register_profile("soak", max_examples=300, deadline=None)
    settings.load_profile("soak" if config.getoption("--soak") else "sample")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: longest_first(item.nodeid))
    if config.getoption("--soak"):
        for item in items:
            if item.path.name.startswith("test_fuzz_"):  # thousands of cases, of which each has a limit
                item.add_marker(pytest.mark.timeout(1800))
        return
    config.hook.pytest_deselected(items=[item for item in items if "soak" in item.keywords])
    items[:] = [item for item in items if "soak" not in item.keywords]


def pytest_collection_finish() -> None:
    """What was collected stays, and no later look for garbage goes through it again."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def torchdeck_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home for this test alone; nothing of the person who runs the tests is read or written."""
    home = tmp_path / "torchdeck-home"
    monkeypatch.setenv("TORCHDECK_HOME", str(home))
    for name in RUN_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def hosts(
    torchdeck_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., TestHosts]]:
    """`hosts(n, **options)` makes n hosts for this test and trusts their keys; skips where none can be made.

    HOME is an empty folder for the test, so that nobody's ~/.ssh is read, and no agent of keys is known.
    """
    person = tmp_path / "person"
    person.mkdir(mode=0o700, exist_ok=True)
    monkeypatch.setenv("HOME", str(person))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with ExitStack() as stack:

        def make(count: int, **options: Any) -> TestHosts:
            why = why_no_hosts()
            if why:
                pytest.skip(why)
            made = stack.enter_context(TestHosts(count, **options))
            made.trust(torchdeck_home)
            return made

        yield make
