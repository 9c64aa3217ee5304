"""Run files on disk: nothing of them changes but what was edited."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from torchdeck_app.launch.files.diff_dialog import by_key, by_line
from torchdeck_app.launch.files.document_sources import (
    LIMIT,
    RecentFiles,
    begin_with,
    unused,
    write_files,
)
from torchdeck_app.launch.files.run_file import FileError, read_text, stamp_of, write_text


def test_line_ends_mode_and_links_stay(tmp_path: Path) -> None:
    real = tmp_path / "real.toml"
    real.write_bytes(b"a = 1\r\nb = 2\r\n")
    real.chmod(0o640)
    link = tmp_path / "link.toml"
    link.symlink_to(real)
    found = read_text(link)
    assert found.text == "a = 1\nb = 2\n"
    stamp = write_text(link, found.text + "c = 3\n", found.newline)
    assert link.is_symlink()
    assert real.read_bytes() == b"a = 1\r\nb = 2\r\nc = 3\r\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert stamp_of(link) == stamp
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.toml", "real.toml"]


def test_a_change_within_the_same_size_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    before = write_text(path, "a = 1\n")
    after = write_text(path, "a = 2\n")
    assert before != after
    assert stamp_of(tmp_path / "none") is None


def test_what_is_not_utf8_is_shown_and_must_not_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "latin.toml"
    path.write_bytes(b'a = 1\nname = "f\xfc"\n')
    found = read_text(path)
    assert "line 2" in found.damage
    assert "\ufffd" in found.text


def test_refusals_name_the_file_and_what_would_help(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"none\.toml does not exist"):
        read_text(tmp_path / "none.toml")
    with pytest.raises(FileError, match="is not a file"):
        read_text(tmp_path)
    (tmp_path / "long.toml").write_bytes(b"#" * (1 << 21))
    with pytest.raises(FileError, match="at most"):
        read_text(tmp_path / "long.toml")
    (tmp_path / "weights.toml").write_bytes(b"\x00\x01")
    with pytest.raises(FileError, match="is not a text file"):
        read_text(tmp_path / "weights.toml")
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="another folder"):
        write_text(tmp_path / "file" / "run.toml", "")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(FileError, match="is not a file"):
        read_text(tmp_path / "fifo")


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.toml"
    path.write_text("old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="No space left"):
        write_text(path, "new")
    assert [(found.name, found.read_text()) for found in tmp_path.iterdir()] == [("a.toml", "old")]


def test_a_read_only_file_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though its folder could be written in."""
    path = tmp_path / "a.toml"
    path.write_text("old")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(FileError, match="read-only"):
        write_text(path, "new")
    assert path.read_text() == "old"


def test_a_script_begins_a_run_file_beside_it(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print(1)\n")
    (tmp_path / "train.toml").write_text("")
    begun = begin_with(script)
    assert begun.path == tmp_path / "train-2.toml"
    assert begun.disk is None
    assert 'script = "train.py"' in begun.text
    assert "train.py" in begun.note
    assert unused(tmp_path / "free.toml") == tmp_path / "free.toml"


def test_files_of_a_preset_overwrite_nothing(tmp_path: Path) -> None:
    contents = {tmp_path / "new" / "run.toml": "a = 1\n", tmp_path / "new" / "model.py": "x\n"}
    begun = write_files(contents)
    assert begun.path == tmp_path / "new" / "run.toml"
    assert (tmp_path / "new" / "model.py").read_text() == "x\n"
    with pytest.raises(FileError, match="exists already"):
        write_files(contents)


def test_diffs_by_key_and_line() -> None:
    before = "name = 'a'\n[training]\nsteps = 1\n"
    after = "name = 'a' # c\n[training]\nlr = 0.5\nsteps = 1\n"
    (row,) = by_key(before, after)
    assert row.key == "training.lr"
    assert "default" in row.before
    assert row.after == "0.5"
    assert [
        (line.kind, line.text) for line in by_line(before, after) if line.kind in ("added", "removed")
    ] == [
        ("removed", "-name = 'a'"),
        ("added", "+name = 'a' # c"),
        ("added", "+lr = 0.5"),
    ]
    assert by_line(before, before) == []
    with pytest.raises(ValueError, match="Invalid"):
        by_key("a = = 1", after)


def test_recent_files(tmp_path: Path) -> None:
    recent = RecentFiles()
    for number in range(LIMIT + 3):
        recent.add(tmp_path / f"{number}.toml")
    recent.add(tmp_path / "5.toml")
    assert recent.paths[0] == tmp_path / "5.toml"
    assert len(recent.paths) == LIMIT
    other = RecentFiles()
    other.restore_state(recent.save_state())
    assert other.paths == recent.paths
    for damaged in (None, 3, ["relative", 7], {"a": 1}):
        other.restore_state(damaged)
        assert other.paths == ()
