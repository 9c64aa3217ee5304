"""What all tests share: a Torchdeck home of their own, and which tests run: a tier, a sample or all."""

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from support import tiers
from support.doctor.fault_table import FaultTable
from support.hosts.hosts import TestHosts
from support.long_files import longest_first
from support.ranks.torch_servers import serve_workers
from support.system.deepspeed_python import deepspeed_python

RUN_VARIABLES = (
    "TORCHDECK_RUN_ID",
    "TORCHDECK_RUN_DIR",
    "TORCHDECK_ATTEMPT",
    "TORCHDECK_RESUME",
    "TORCHDECK_RECIPE",
)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    parser.addoption(
        "--soak", action="store_true", help="run every variant of faults and journeys, not a sample"
    )
    parser.addoption("--fast", action="store_true", help="run the pure tests only (see tests/README.md)")
    parser.addoption(
        "--all-tiers",
        action="store_true",
        default=bool(os.environ.get("CI")),
        help="fail the tests that this machine cannot run instead of skipping them; default if CI is set",
    )
    FaultTable.add_options(parser)
    if pluginmanager.hasplugin("pytest-qt") and tiers.why_no_qt():
        pluginmanager.unregister(name="pytest-qt")  # it would end this run when it finds no Qt


def pytest_report_header(config: pytest.Config) -> list[str]:
    absent = [] if config.getoption("--fast") else tiers.absent()
    return ["tests that this machine cannot run, so that they are skipped:", *absent] if absent else []


def pytest_configure(config: pytest.Config) -> None:
    """Properties are tried on the same fifty examples every time; a soak draws three hundred new ones."""
    for tier in tiers.TIERS:
        config.addinivalue_line("markers", f"{tier.name}: needs {tier.needs}")
    config.addinivalue_line("markers", f"{tiers.PURE}: needs nothing; set for each test without another tier")
    # a shell ignores SIGINT and SIGQUIT in what it starts with `&`; the processes of tests would inherit it
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    # a machine on which Python keeps no bytecode compiles all of Torchdeck in each of a thousand processes
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    gc.disable()  # until all is collected: of six thousand tests nothing is garbage
    # xdist would begin with the files of most tests, not with those that take longest
    config.option.loadscopereorder = False
    distributed = config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput")
    if distributed and not config.getoption("--fast"):
        for server in serve_workers([python for python in {sys.executable, deepspeed_python()} if python]):
            config.add_cleanup(server.end)
    # without a deadline: an example of a busy machine takes as long as it likes
    settings.register_profile("sample", derandomize=True, max_examples=50, deadline=None)
    settings.register_profile("soak", max_examples=300, deadline=None)
    config.pluginmanager.register(FaultTable(config))
    settings.load_profile("soak" if config.getoption("--soak") else "sample")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Folders whose tests would all be deselected, or cannot be imported; None leaves it to other rules."""
    if config.getoption("--fast"):
        return tiers.is_whole_tier(collection_path) or None
    return (not config.getoption("--all-tiers") and tiers.cannot_collect(collection_path)) or None


@pytest.hookimpl(tryfirst=True)  # before -m selects by the markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tiers.mark(items)
    items.sort(key=lambda item: longest_first(item.nodeid))
    if config.getoption("--soak"):
        for item in items:
            if item.path.name.startswith("test_fuzz_"):  # thousands of cases, of which each has a limit
                item.add_marker(pytest.mark.timeout(1800))
    left_out = [item for item in items if _is_left_out(item, config)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not _is_left_out(item, config)]


def _is_left_out(item: pytest.Item, config: pytest.Config) -> bool:
    if config.getoption("--fast") and tiers.PURE not in item.keywords:
        return True
    return "soak" in item.keywords and not config.getoption("--soak")


@pytest.hookimpl(wrapper=True, trylast=True)  # inside the wrappers of pytest, before fixtures
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with _running(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with _running(item):
        return (yield)


def _running(item: pytest.Item) -> AbstractContextManager[None]:
    required, fast = item.config.getoption("--all-tiers"), item.config.getoption("--fast")
    return tiers.running(item, required=required, fast=fast)


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
    """`hosts(n, **options)` makes n hosts for this test and trusts their keys.

    HOME is an empty folder for the test, so that nobody's ~/.ssh is read, and no agent of keys is known.
    """
    person = tmp_path / "person"
    person.mkdir(mode=0o700, exist_ok=True)
    monkeypatch.setenv("HOME", str(person))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with ExitStack() as stack:

        def make(count: int, **options: Any) -> TestHosts:
            made = stack.enter_context(TestHosts(count, **options))
            made.trust(torchdeck_home)
            return made

        yield make
