"""Files are found when they appear, and folders in which nothing can have appeared are not read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from torchdeck.agent.link.file_search import Finder
from torchdeck.contract.layout import RunLayout

LONG_AGO = 1_000_000_000.0


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    """With two ranks that have a log each, in folders that changed long ago."""
    made = RunLayout(tmp_path / "run")
    for rank in range(2):
        made.attempt(1).rank(rank).root.mkdir(parents=True)
        made.attempt(1).rank(rank).stdout.touch()
    age(made)
    return made


def age(layout: RunLayout) -> None:
    for folder in (layout.root, *(path for path in layout.root.rglob("*") if path.is_dir())):
        os.utime(folder, (LONG_AGO, LONG_AGO))


def found(finder: Finder, *, everywhere: bool = False) -> list[str]:
    return sorted(path for path, _ in finder.look(everywhere=everywhere))


def test_what_appears_is_found_once(layout: RunLayout) -> None:
    """A file beside others, a folder with a file in it, a rank, and another attempt."""
    finder = Finder(layout.root, "n1")
    assert found(finder) == ["attempts/1/ranks/0/stdout.log", "attempts/1/ranks/1/stdout.log"]
    assert found(finder) == []
    rank = layout.attempt(1).rank(0)
    rank.progress.touch()
    assert found(finder) == ["attempts/1/ranks/0/progress"]
    rank.metrics.mkdir()
    (rank.metrics / "log-1-2-ab-0.metrics").touch()
    assert found(finder) == ["attempts/1/ranks/0/metrics/log-1-2-ab-0.metrics"]
    for number, third in ((1, 2), (2, 0)):
        layout.attempt(number).rank(third).root.mkdir(parents=True)
        layout.attempt(number).rank(third).stderr.touch()
    assert found(finder) == ["attempts/1/ranks/2/stderr.log", "attempts/2/ranks/0/stderr.log"]
    assert finder.newest_attempts(2) == [2, 1]


def test_a_folder_that_has_not_changed_is_not_read(
    layout: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the look that is thorough."""
    finder = Finder(layout.root, "n1")
    for _ in range(2):  # one that was new is read again: it may have changed within a tick of the clock
        found(finder)
    read: list[str] = []
    scandir = os.scandir

    def noted(path: str) -> Any:
        read.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", noted)
    assert found(finder) == []
    assert read == []
    layout.attempt(1).rank(1).progress.touch()
    assert found(finder) == ["attempts/1/ranks/1/progress"]
    assert read == [str(layout.attempt(1).rank(1).root)]


def test_a_file_is_found_where_the_folder_s_time_does_not_tell(layout: RunLayout) -> None:
    """Some file systems count whole seconds: the thorough look, which comes every few, finds it."""
    finder = Finder(layout.root, "n1")
    for _ in range(2):
        found(finder)
    layout.attempt(1).rank(0).stderr.touch()
    age(layout)
    assert found(finder) == []
    assert found(finder, everywhere=True) == ["attempts/1/ranks/0/stderr.log"]


def test_a_file_that_was_gone_is_found_again(layout: RunLayout) -> None:
    """Once who reads it has said so."""
    finder = Finder(layout.root, "n1")
    found(finder)
    log = layout.attempt(1).rank(0).stdout
    log.unlink()
    finder.forget("attempts/1/ranks/0/stdout.log")
    assert found(finder) == []
    log.touch()
    assert found(finder) == ["attempts/1/ranks/0/stdout.log"]


def test_folders_behind_links_are_not_looked_into(layout: RunLayout, tmp_path: Path) -> None:
    """A rank's folder, and its metrics."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "stdout.log").touch()
    (elsewhere / "log-1-2-ab-0.metrics").touch()
    layout.attempt(1).rank(7).root.symlink_to(elsewhere)
    layout.attempt(1).rank(0).metrics.symlink_to(elsewhere)
    assert [path for path in found(Finder(layout.root, "n1")) if "/7/" in path or "metrics" in path] == []
