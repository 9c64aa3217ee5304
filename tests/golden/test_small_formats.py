"""Small files that an earlier version wrote: this one reads the same values, and writes the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.values.golden_values import FOLDER, FORMATS, Format

FOLDERS = sorted(path for path in Path(__file__).parent.glob(f"v*/{FOLDER}") if path.is_dir())


def test_each_format_has_a_file() -> None:
    assert FOLDERS
    for folder in FOLDERS:
        assert {path.name for path in folder.iterdir()} == {each.name for each in FORMATS}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)
@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_it_is_read_as_it_was_written(folder: Path, each: Format) -> None:
    assert each.read(folder / each.name) == each.value


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)
@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_it_is_written_byte_for_byte(folder: Path, each: Format, tmp_path: Path) -> None:
    each.write(tmp_path / each.name, each.value)
    assert (tmp_path / each.name).read_bytes() == (folder / each.name).read_bytes()
