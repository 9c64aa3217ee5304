"""Hashes that are kept."""

import hashlib
import os
import time
from pathlib import Path

import pytest

from support.waiting import wait_until
from torchdeck.launching.code import digests
from torchdeck.launching.code.digests import Digests


@pytest.fixture(autouse=True)
def _always_worth_keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "WORTH_KEEPING", 0.0)


def settled(path: Path, content: bytes) -> os.stat_result:
    """A file that was not changed a moment ago."""
    path.write_bytes(content)
    wait_until(lambda: time.time() - path.stat().st_ctime > 0.15, 10, "the file to be older")
    return path.stat()


def test_a_file_is_read_once(tmp_path: Path) -> None:
    stat = settled(tmp_path / "a", b"one")
    first = Digests(tmp_path / "home", tmp_path)
    assert first.known("a", stat) is None
    read = first.read("a", str(tmp_path / "a"))
    assert read is not None
    assert read == (hashlib.sha256(b"one").hexdigest(), "")
    first.save()
    assert Digests(tmp_path / "home", tmp_path).known("a", stat) == read
    assert Digests(tmp_path / "home", tmp_path / "other").known("a", stat) is None


def test_a_change_shows_though_size_and_time_are_as_they_were(tmp_path: Path) -> None:
    stat = settled(tmp_path / "a", b"one")
    kept = Digests(tmp_path / "home", tmp_path)
    kept.read("a", str(tmp_path / "a"))
    (tmp_path / "a").write_bytes(b"two")
    os.utime(tmp_path / "a", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert kept.known("a", (tmp_path / "a").stat()) is None


def test_a_file_written_this_moment_is_not_relied_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another write within the same tick of the clock would leave no trace."""
    for name in ("_FINE", "_COARSE"):
        monkeypatch.setattr(digests, name, 60.0)  # a moment that a busy machine does not miss
    (tmp_path / "a").write_bytes(b"one")
    kept = Digests(tmp_path / "home", tmp_path)
    kept.read("a", str(tmp_path / "a"))
    assert kept.known("a", (tmp_path / "a").stat()) is None


def test_keys_are_known_by_their_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    read = Digests(tmp_path / "home", tmp_path).read("a", str(tmp_path / "a"))
    assert read is not None
    assert read == (hashlib.sha256((tmp_path / "a").read_bytes()).hexdigest(), "a private key")


@pytest.mark.parametrize("content", ["", "[]", '{"version": 1}', '{"version": 2, "files": {"a": 1}}'])
def test_damaged_files_of_hashes_are_none(tmp_path: Path, content: str) -> None:
    stat = settled(tmp_path / "a", b"one")
    kept = Digests(tmp_path / "home", tmp_path)
    kept.read("a", str(tmp_path / "a"))
    kept.save()
    (file,) = (tmp_path / "home/code/hashes").iterdir()
    file.write_text(content)
    assert Digests(tmp_path / "home", tmp_path).known("a", stat) is None


def test_what_cannot_be_read_or_written_is_no_error(tmp_path: Path) -> None:
    kept = Digests(tmp_path / "file" / "home", tmp_path)
    (tmp_path / "file").touch()
    assert kept.read("none", str(tmp_path / "none")) is None
    kept.save()


def test_a_verdict_under_other_rules_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that held no known credential may hold one that is known by now."""
    stat = settled(tmp_path / "a", b"one")
    first = Digests(tmp_path / "home", tmp_path)
    first.read("a", str(tmp_path / "a"))
    first.save()
    monkeypatch.setattr(digests, "rules_version", lambda: "others")
    assert Digests(tmp_path / "home", tmp_path).known("a", stat) is None
