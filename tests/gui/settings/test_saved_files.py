"""Files that are kept: what cannot be used is set aside, and said."""

import json
from pathlib import Path

import pytest

from torchdeck_app.settings.saved_files import read_kept


def test_a_file_that_is_not_there_is_a_first_start(tmp_path: Path) -> None:
    assert read_kept(tmp_path / "window.json", 1) == ({}, "")


def test_a_whole_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "window.json"
    path.write_text(json.dumps({"version": 1, "place": "Runs"}))
    assert read_kept(path, 1).value["place"] == "Runs"
    assert read_kept(path, 2).value["place"] == "Runs"
    assert path.exists()


@pytest.mark.parametrize(
    "content",
    ["", "{", "[1]", '{"place": "Runs"}', '{"version": "1"}', '{"version": true}', "[" * 100_000, "\udce4"],
    ids=["empty", "torn", "a list", "no version", "a text", "a truth", "deep", "not UTF-8"],
)
def test_a_damaged_file_is_set_aside(tmp_path: Path, content: str) -> None:
    path = tmp_path / "window.json"
    path.write_bytes(content.encode(errors="surrogateescape"))
    kept = read_kept(path, 1)
    assert kept.value == {}
    assert "is damaged" in kept.said
    assert "window.json.kept" in kept.said
    assert not path.exists()
    assert (tmp_path / "window.json.kept").read_bytes() == content.encode(errors="surrogateescape")


def test_a_newer_file_is_set_aside_beside_older_ones(tmp_path: Path) -> None:
    path = tmp_path / "window.json"
    for version in (7, 8):
        path.write_text(json.dumps({"version": version}))
        assert "newer Torchdeck" in read_kept(path, 1).said
    assert json.loads((tmp_path / "window.json.kept").read_text())["version"] == 7
    assert json.loads((tmp_path / "window.json.kept1").read_text())["version"] == 8


def test_what_cannot_be_read_stays_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "window.json"
    path.mkdir()
    assert "cannot be read (is a folder" in read_kept(path, 1).said
    assert path.is_dir()
