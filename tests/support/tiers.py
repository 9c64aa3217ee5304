"""Tiers: what a test needs of the machine. tests/README.md explains them.

Each test is marked by its folder and fixtures, or by itself (`@pytest.mark.root`); a test without such a mark
is `pure`. Tests that this machine cannot run are skipped with the reason; in CI they fail.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from support.gui.desktop import missing_programs
from support.hosts.host_networks import why_no_hosts
from support.hosts.slurm import why_no_slurm
from support.no_processes import no_processes
from torchdeck_app.window.qt_start import load_qt

PURE = "pure"
TESTS = Path(__file__).parents[1]


@dataclass(frozen=True)
class Tier:
    """A group of tests that need the same of the machine.

    Args:
        name: the marker.
        needs: what the tests need, for `pytest --markers`.
        why_absent: why this machine cannot run them, empty if it can; None if every machine can.
        folders: below tests/; all tests in them belong to the tier.
        fixtures: all tests that use one of them belong to the tier.
        files: all tests in files whose name begins so belong to the tier; empty: none.
    """

    name: str
    needs: str
    why_absent: Callable[[], str] | None
    folders: tuple[str, ...] = ()
    fixtures: frozenset[str] = frozenset()
    files: str = ""

    def has(self, item: pytest.Item) -> bool:
        """Whether the test belongs to this tier."""
        return (
            item.get_closest_marker(self.name) is not None
            or self.name in _of_folder(item.path)
            or not self.fixtures.isdisjoint(getattr(item, "fixturenames", ()))
        )

    def absent(self) -> str:
        """Why this machine cannot run its tests; empty if it can."""
        return "" if self.why_absent is None else self.why_absent()

    def has_path(self, path: Path) -> bool:
        """Whether all tests in this file or folder belong to this tier."""
        in_folder = any(path.is_relative_to(TESTS / folder) for folder in self.folders)
        return in_folder or (self.files != "" and path.name.startswith(self.files))


@cache
def why_no_qt() -> str:
    """Why Qt cannot be imported here; empty if it can, and then it is, as the window does it."""
    try:
        load_qt()
    except ImportError as error:
        return f"Qt cannot be loaded: {error}"
    return ""


def why_no_screen() -> str:
    """Why no X server can be started here; empty if one can."""
    missing = missing_programs()
    return f"these programs are missing: {', '.join(missing)}" if missing else why_no_qt()


@cache
def why_no_root() -> str:
    """Why this machine does not let us do what root may do; empty if it does."""
    if os.geteuid() != 0:
        return "this needs root"
    mount = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]  # it ends with the command
    done = subprocess.run(mount, capture_output=True, text=True, check=False, timeout=30)
    return f"root may mount no file system here: {done.stderr.strip()}" if done.returncode else ""


TIERS = (
    Tier("window", "Qt, without a screen", why_no_qt, ("gui",), frozenset({"qapp", "qtbot"})),
    Tier(
        "screen",
        "an X server and a window manager (Xvfb, openbox)",
        why_no_screen,
        ("gui/journeys",),
        frozenset({"screen", "large_screen", "far_screen"}),
    ),
    Tier(
        "hosts",
        "root, network namespaces and sshd: several hosts on this machine",
        why_no_hosts,
        (),
        frozenset({"hosts", "across"}),
    ),
    Tier("slurm", "root and Slurm's daemons", why_no_slurm),
    Tier(
        "root",
        "root: other users, mounted file systems, packet filters",
        why_no_root,
        (),
        frozenset({"small_disk", "few_inodes"}),
    ),
    Tier("long", "time: seconds of computing", None, files="test_fuzz_"),
    Tier(
        "processes",
        "time: it starts processes, as torchrun, agents and controllers",
        None,
        ("agent/gang_nodes", "agent/link", "hosts", "integration", "trainers/inside"),
        frozenset({"make_run", "written"}),
    ),
)
"""All but `pure`."""


@cache
def _of_folder(path: Path) -> frozenset[str]:
    """Names of the tiers to which all tests in a file belong."""
    return frozenset(tier.name for tier in TIERS if tier.has_path(path))


def mark(items: Iterable[pytest.Item]) -> None:
    """Add to each test the markers of its tiers."""
    for item in items:
        tiers = [tier.name for tier in TIERS if tier.has(item)] or [PURE]
        for name in tiers:
            item.add_marker(name)


@contextmanager
def running(item: pytest.Item, *, required: bool, fast: bool) -> Iterator[None]:
    """A phase of a test: skipped if this machine cannot run it, or failed if it is `required` to run.

    If `fast` or `required`, a pure test that starts a process fails, so that the fast tier stays fast.
    """
    of_item = [tier for tier in TIERS if item.get_closest_marker(tier.name) is not None]
    with ExitStack() as stack:
        if not of_item and (fast or required):
            stack.enter_context(no_processes())
        try:
            for tier in of_item:
                if why := tier.absent():
                    pytest.skip(f"{tier.name}: {why}")
            yield
        except pytest.skip.Exception as skipped:
            if required and any(tier.why_absent is not None for tier in of_item):
                pytest.fail(f"all tests must run, and this one does not: {skipped.msg}", pytrace=False)
            raise


def cannot_collect(path: Path) -> bool:
    """Whether files in this folder cannot even be imported here."""
    return any(tier.has_path(path) for tier in TIERS if tier.why_absent is why_no_qt) and bool(why_no_qt())


def is_whole_tier(path: Path) -> bool:
    """Whether no test in this folder is pure."""
    return any(tier.has_path(path) for tier in TIERS)


def absent() -> list[str]:
    """One line for each tier that this machine cannot run, with the reason."""
    reasons = ((tier.name, tier.absent()) for tier in TIERS)
    return [f"{name}: {why}" for name, why in reasons if why]
