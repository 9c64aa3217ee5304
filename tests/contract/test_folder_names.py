"""Listing folders again only where they have changed."""

import os
from pathlib import Path

import pytest

from torchdeck.contract.file_names import AGAIN, YOUNG, FolderNames


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_new_name_shows_at_the_next_look(tmp_path: Path) -> None:
    clock = Clock()
    names = FolderNames(clock)
    assert names(tmp_path) == ()
    for number in range(5):
        (tmp_path / f"{number}").touch()
        os.utime(tmp_path, (clock.now, clock.now))  # all of this takes less than a tick of older kernels
        assert names(tmp_path) == tuple(map(str, range(number + 1)))
        clock.now += YOUNG


def test_a_folder_that_is_not_there_has_no_names_until_it_is(tmp_path: Path) -> None:
    names = FolderNames()
    assert names(tmp_path / "a") == ()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").touch()
    assert names(tmp_path / "a") == ("b",)
    assert names(tmp_path / "a" / "b") == ()


def test_a_name_that_came_within_the_same_tick_is_found(tmp_path: Path) -> None:
    clock = Clock()
    names = FolderNames(clock)
    stat = tmp_path.stat()
    assert names(tmp_path) == ()
    (tmp_path / "late").touch()
    os.utime(tmp_path, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # as if its clock were that coarse
    clock.now += YOUNG / 2
    assert names(tmp_path) == ("late",)


def test_what_has_not_changed_is_listed_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[Path] = []
    original = os.listdir

    def counted(folder: Path) -> list[str]:
        listed.append(folder)
        return original(folder)

    monkeypatch.setattr(os, "listdir", counted)
    clock = Clock()
    names = FolderNames(clock)
    for _ in range(60):
        names(tmp_path)
        clock.now += 0.5
    # all looks of the first seconds, and then now and again
    assert YOUNG / 0.5 <= len(listed) <= YOUNG / 0.5 + 2 + 30 / AGAIN
