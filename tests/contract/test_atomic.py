"""Files that are wholly there or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from torchdeck.contract.atomic import read_json, write_bytes, write_json


@pytest.mark.parametrize("durable", [True, False])
def test_a_file_is_replaced_whole(tmp_path: Path, durable: bool) -> None:
    """The new content, and nothing beside it."""
    path = tmp_path / "file"
    write_bytes(path, b"old")
    write_bytes(path, b"new", durable=durable)
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    """Where the target cannot be replaced, it is what it was, and no temporary file stays."""
    folder = tmp_path / "folder"
    (folder / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="irectory"):
        write_bytes(folder, b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"a": 1} trailing'])
def test_what_is_not_whole_reads_as_none(tmp_path: Path, content: bytes) -> None:
    """No file, half a file, no text: None."""
    path = tmp_path / "file"
    assert read_json(path) is None
    assert read_json(path / "below") is None
    path.write_bytes(content)
    assert read_json(path) is None
    assert read_json(path / "below a file") is None


def test_json_comes_back(tmp_path: Path) -> None:
    """As it was, text of any script included."""
    value = {"a": [1, 2.5, None, True], "ü": "日本"}
    write_json(tmp_path / "file", value)
    assert read_json(tmp_path / "file") == value


def test_a_mode_that_is_given_holds_whatever_the_umask(tmp_path: Path) -> None:
    for mode in (0o600, 0o664, 0o777):
        write_bytes(tmp_path / "run.toml", b"", mode=mode)
        assert stat.S_IMODE((tmp_path / "run.toml").stat().st_mode) == mode


def test_private_files_are_the_owners_alone(tmp_path: Path) -> None:
    """Run directories hold what a config's environment says, which may be a key."""
    before = os.umask(0o022)
    try:
        write_json(tmp_path / "plan.json", {})
        write_bytes(tmp_path / "run.toml", b"", private=True)
        write_bytes(tmp_path / "mine.toml", b"")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"plan.json": 0o600, "run.toml": 0o600, "mine.toml": 0o644}
