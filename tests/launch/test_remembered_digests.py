"""Hashes of code that are remembered: never of what a file does not hold any more."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from torchdeck.launch.remembered_digests import RememberedDigests


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


def test_a_file_is_read_again_only_where_it_was_changed(tmp_path: Path, read: list[Path]) -> None:
    digests = RememberedDigests()
    path = tmp_path / "model.py"
    path.write_text("one\n")
    assert digests(path, path.stat()) == digests(path, path.stat()) == hashlib.sha256(b"one\n").hexdigest()
    assert read == [path]
    before = path.stat()
    path.write_text("two\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as an archive does
    other = tmp_path / "other.py"
    other.write_text("two\n")
    assert digests(path, path.stat()) == digests(other, other.stat()) == hashlib.sha256(b"two\n").hexdigest()


def test_a_file_that_cannot_be_read_is_an_error_each_time(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("one\n")
    stat = path.stat()
    path.unlink()
    digests = RememberedDigests()
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            digests(path, stat)
