"""Small files that an earlier version wrote: this one reads the same values, and writes the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.values.golden_values import FOLDER, FORMATS, Format

FOLDERS = sorted(path for path in Path(__file__).parent.glob(f"v*/{FOLDER}*") if path.is_dir())
FILES = [(folder, each) for folder in FOLDERS for each in FORMATS if (folder / each.name).exists()]
NEWEST = {each.name: (folder, each) for folder, each in FILES}
"""Each format with the last version that changed it."""


def name_of(value: Path | Format) -> str:
    return f"{value.parent.name}-{value.name}" if isinstance(value, Path) else value.name


def test_each_format_has_a_file() -> None:
    assert NEWEST.keys() == {each.name for each in FORMATS}
    assert {path.name for folder in FOLDERS for path in folder.iterdir()} == NEWEST.keys()


@pytest.mark.parametrize(("folder", "each"), FILES, ids=name_of)
def test_it_is_read_as_it_was_written(folder: Path, each: Format) -> None:
    assert each.read(folder / each.name) == each.value


@pytest.mark.parametrize(("folder", "each"), NEWEST.values(), ids=name_of)
def test_it_is_written_byte_for_byte(folder: Path, each: Format, tmp_path: Path) -> None:
    each.write(tmp_path / each.name, each.value)
    assert (tmp_path / each.name).read_bytes() == (folder / each.name).read_bytes()
