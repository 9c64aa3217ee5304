"""Hashes of code that are remembered: never of what a file does not hold any more."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from support.waiting import wait_until
from torchdeck.launching.code import digests as times
from torchdeck.launching.facts.remembered_profiles import RememberedDigests


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files that were read, in order."""
    seen: list[Path] = []
    read_bytes = Path.read_bytes

    def noted(path: Path) -> bytes:
        seen.append(path)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", noted)
    return seen


def settled(path: Path) -> None:
    """Until it was not changed a moment ago."""
    wait_until(lambda: time.time() - path.stat().st_ctime > 0.15, 10, "the file to be older")


def test_a_file_is_read_again_only_where_it_was_changed(tmp_path: Path, read: list[Path]) -> None:
    digests = RememberedDigests()
    path = tmp_path / "model.py"
    path.write_text("one\n")
    settled(path)
    assert digests(path, path.stat()) == digests(path, path.stat()) == hashlib.sha256(b"one\n").hexdigest()
    assert read == [path]
    before = path.stat()
    path.write_text("two\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as an archive does
    other = tmp_path / "other.py"
    other.write_text("two\n")
    assert digests(path, path.stat()) == digests(other, other.stat()) == hashlib.sha256(b"two\n").hexdigest()


def test_a_file_written_this_moment_is_read_each_time(
    tmp_path: Path, read: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next write within the same tick of the clock would leave no trace."""
    for name in ("_FINE", "_COARSE"):
        monkeypatch.setattr(times, name, 60.0)
    digests = RememberedDigests()
    path = tmp_path / "model.py"
    path.write_text("one\n")
    stat = path.stat()
    digests(path, stat)
    path.write_text("two\n")
    assert digests(path, stat) == hashlib.sha256(b"two\n").hexdigest()
    assert read == [path, path]


def test_a_file_that_cannot_be_read_is_an_error_each_time(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("one\n")
    stat = path.stat()
    path.unlink()
    digests = RememberedDigests()
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            digests(path, stat)
