"""A run file that is edited: its text is not on disk yet, and the files it extends are."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.values.run_files import MINIMAL, write
from torchdeck.config.loader import draft_config, load_config, load_config_text
from torchdeck.config.problems import ConfigError
from torchdeck.config.sources import MAX_BYTES


def test_the_text_holds_and_not_the_file(tmp_path: Path) -> None:
    """The file on disk says something else, and is not looked at."""
    path = write(tmp_path, MINIMAL)
    loaded = load_config_text(MINIMAL.replace("steps = 10", "steps = 11"), path)
    assert loaded.config.training.steps == 11
    assert (loaded.path, loaded.files) == (path, (path,))


def test_a_text_says_what_a_file_with_it_says(tmp_path: Path) -> None:
    """Name, folders and extended files are those of the place it is meant for."""
    write(tmp_path, MINIMAL + "[data]\nsource = 'words'\n", "base/base.toml")
    text = "extends = 'base/base.toml'\n[checkpoint]\ndirectory = 'ck'\n"
    by_text = load_config_text(text, tmp_path / "mine.toml")
    assert by_text.config == load_config(write(tmp_path, text, "mine.toml")).config
    assert by_text.config.data["source"] == str(tmp_path / "base" / "words")


def test_a_text_without_a_name_belongs_to_a_folder(tmp_path: Path) -> None:
    """Relative paths are seen from it, and the run is called run."""
    loaded = load_config_text(MINIMAL + "[checkpoint]\ndirectory = 'ck'\n", tmp_path)
    assert loaded.config.name == "run"
    assert loaded.config.checkpoint.directory == str(tmp_path / "ck")


def test_problems_have_the_lines_of_the_text(tmp_path: Path) -> None:
    """Of the edited one, under the name it is given; those of a base file have its name and lines."""
    write(tmp_path, "[training]\n\nlr = -1.0\n", "base.toml")
    text = "extends = 'base.toml'\n" + MINIMAL + "microbatch = 0\n"
    with pytest.raises(ConfigError) as caught:
        draft_config(tmp_path / "a.toml", text=text, name="a.toml").config()
    found = {(problem.path, problem.file, problem.line) for problem in caught.value.problems}
    assert found == {("training.lr", "base.toml", 3), ("training.microbatch", "a.toml", 7)}


def test_a_text_can_extend_itself_no_more_than_a_file(tmp_path: Path) -> None:
    """The circle is found though one file of it is not on disk."""
    write(tmp_path, "extends = 'a.toml'\n", "b.toml")
    with pytest.raises(ConfigError, match="circle"):
        load_config_text("extends = 'b.toml'\n", tmp_path / "a.toml")


@given(st.text(max_size=40))
@settings(deadline=None)
def test_any_text_is_a_config_or_a_list_of_problems(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    """Whatever is typed, nothing else is raised, and every line named is one of the text."""
    with pytest.raises(ConfigError) as caught:  # no text so short says what to run
        load_config_text(text, tmp_path_factory.getbasetemp())
    assert caught.value.problems
    assert all(1 <= (problem.line or 1) <= text.count("\n") + 1 for problem in caught.value.problems)


def test_a_text_that_is_too_long_is_refused(tmp_path: Path) -> None:
    """As a file of that length would be."""
    with pytest.raises(ConfigError, match="too large"):
        load_config_text("#" * (MAX_BYTES + 1), tmp_path)
