"""Tests that a machine cannot run are skipped or failed, and pure tests start no process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from support import tiers
from support.tiers import TESTS, TIERS, Tier

ABSENT = Tier("absent", "a machine on the moon", lambda: "there is no moon")


class Item:
    """What tiers ask of a test."""

    def __init__(self, path: str = "plan/test_it.py", *fixtures: str, marker: str = "") -> None:
        self.path = TESTS / path
        self.fixturenames = fixtures
        self.names = [marker]

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.names else None

    def add_marker(self, name: str) -> None:
        self.names.append(name)


@pytest.mark.parametrize(
    ("item", "wanted"),
    [
        (Item(), ["pure"]),
        (Item(marker="processes"), ["processes"]),
        (Item("cli/test_it.py", "hosts", "tmp_path"), ["hosts"]),
        (Item("hosts/test_it.py", "across"), ["hosts", "processes"]),
        (Item("gui/window/test_it.py"), ["window"]),
        (Item("gui/journeys/test_it.py"), ["window", "screen"]),
        (Item("agent/test_it.py", "small_disk"), ["root"]),
        (Item("data/test_fuzz_it.py"), ["long"]),
    ],
)
def test_a_test_is_marked_by_folder_and_fixtures(item: Any, wanted: list[str]) -> None:
    tiers.mark([item])
    assert item.names[1:] == wanted


@pytest.mark.parametrize(
    ("required", "error"), [(False, pytest.skip.Exception), (True, pytest.fail.Exception)]
)
def test_an_absent_tier_is_skipped_or_fails(
    required: bool, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the reason, and before the test has begun; also if the test itself skips."""
    monkeypatch.setattr(tiers, "TIERS", (*TIERS, ABSENT))
    absent: Any = Item(marker="absent")
    running = tiers.running(absent, required=required, fast=False)
    with pytest.raises(error, match=r"absent: there is no moon"), running:
        raise AssertionError("the test ran")
    root: Any = Item(marker="root")
    monkeypatch.setattr(tiers, "TIERS", [replace(tier, why_absent=str) for tier in TIERS])
    running = tiers.running(root, required=required, fast=False)
    with pytest.raises(error, match="no such user"), running:
        pytest.skip("no such user")


def test_what_every_machine_has_may_be_skipped_in_ci() -> None:
    """Such as a test that compares with a library that cannot be built here."""
    item: Any = Item(marker="processes")
    with pytest.raises(pytest.skip.Exception), tiers.running(item, required=True, fast=False):
        pytest.skip("there is no DeepSpeed")


def start_by_subprocess() -> None:
    subprocess.run([sys.executable, "--version"], check=True, timeout=30)


@pytest.mark.parametrize("start", [start_by_subprocess, lambda: os.fork()])
def test_a_pure_test_that_starts_a_process_fails(start: Callable[[], object]) -> None:
    """Even if it suppresses the error; and it says what to write."""
    item: Any = Item()
    running = tiers.running(item, required=False, fast=True)
    error = pytest.raises(pytest.fail.Exception, match=r"mark it with @pytest\.mark\.processes")
    with error, running, suppress(BaseException):
        start()


def test_whole_folders_are_not_collected_for_pure_tests() -> None:
    assert tiers.is_whole_tier(TESTS / "gui" / "runs")
    assert tiers.is_whole_tier(TESTS / "hosts")
    assert not tiers.is_whole_tier(TESTS / "plan")
    assert not tiers.is_whole_tier(TESTS)
