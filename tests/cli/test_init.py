"""`torchdeck init` writes a run file and overwrites nothing."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from torchdeck.cli import init
from torchdeck.config.loader import load_config
from torchdeck.config.starting_files import (
    example_names,
    example_text,
    preset_companions,
    preset_names,
    preset_text,
)


def call(*arguments: str) -> int:
    """The command's exit code for these arguments."""
    parser = argparse.ArgumentParser()
    init.add_parser(parser.add_subparsers())
    args = parser.parse_args(["init", *arguments])
    code: int = args.handler(args)
    return code


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_is_written_and_loads(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is written is right as it stands, and the next command is named."""
    assert call("--preset", name, str(tmp_path)) == 0
    assert load_config(tmp_path / "run.toml").config.name == name
    out = capsys.readouterr().out
    assert str(tmp_path / "run.toml") in out
    assert "next: " in out
    assert ("torchdeck plan " if name == "cluster" else "torchdeck --no-gui ") in out
    assert ("run.script" in out) == (name == "script")  # there is no such script yet
    assert (tmp_path / "my_recipe.py").exists() == (name == "own-recipe") == ("--trust" in out)
    assert {path.name for path in tmp_path.iterdir()} == {"run.toml", *preset_companions(name)}


def test_the_current_folder_and_quickstart_are_the_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without arguments: ./run.toml, quickstart."""
    monkeypatch.chdir(tmp_path)
    assert call() == 0
    assert (tmp_path / "run.toml").read_text(encoding="utf-8") == preset_text("quickstart")


def test_a_path_may_be_a_file_or_a_folder_not_there_yet(tmp_path: Path) -> None:
    """x/y.toml is a file, x/y a folder; folders are made."""
    assert call(str(tmp_path / "x" / "y.toml")) == 0
    assert call(str(tmp_path / "x" / "y")) == 0
    assert (tmp_path / "x" / "y.toml").is_file()
    assert (tmp_path / "x" / "y" / "run.toml").is_file()


@pytest.mark.parametrize("existing", ["run.toml", "my_recipe.py"])
def test_nothing_is_overwritten_without_force(
    tmp_path: Path, existing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is there stays as it is and nothing is written beside it; --force overwrites."""
    (tmp_path / existing).write_text("mine", encoding="utf-8")
    assert call("--preset", "own-recipe", str(tmp_path)) == 2
    assert "exists already" in capsys.readouterr().err
    assert [(path.name, path.read_text()) for path in tmp_path.glob("*.*")] == [(existing, "mine")]
    assert call("--preset", "own-recipe", str(tmp_path), "--force") == 0
    assert (tmp_path / existing).read_text(encoding="utf-8") != "mine"


@pytest.mark.parametrize("name", preset_names())
def test_the_comments_name_the_file(tmp_path: Path, name: str) -> None:
    """Commands in them can be copied as they stand; a name that would end the comment is left out."""
    assert call("--preset", name, "--force", str(tmp_path / "my own.toml")) == 0
    text = (tmp_path / "my own.toml").read_text()
    assert text == preset_text(name).replace("run.toml", "'my own.toml'")
    assert "plan 'my own.toml'" in text
    assert call("--preset", name, "--force", str(tmp_path / "a\nb = 1.toml")) == 0
    assert (tmp_path / "a\nb = 1.toml").read_text() == preset_text(name)


def test_an_unknown_preset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and the presets there are."""
    assert call("--preset", "nope", str(tmp_path)) == 2
    assert "quickstart" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file where a folder should be is said, with exit code 2."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert call(str(tmp_path / "file" / "run.toml")) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    """Every preset with a sentence; as JSON, objects of name and summary."""
    assert call("--list") == 0
    out = capsys.readouterr().out
    assert all(name in out for name in preset_names())
    assert call("--list", "--json") == 0
    listed: dict[str, list[str]] = {kind: [] for kind in ("preset", "example")}
    for row in json.loads(capsys.readouterr().out):
        listed[row["kind"]].append(row["name"])
    assert listed == {"preset": preset_names(), "example": example_names()}


def test_an_example_is_written_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Into a folder under its own name, or under another; never over a file without --force."""
    assert call("--example", "samplers", str(tmp_path)) == 0
    assert (tmp_path / "samplers.py").read_text() == example_text("samplers")
    assert call("--example", "samplers", str(tmp_path / "mine.py")) == 0
    assert (tmp_path / "mine.py").is_file()
    assert call("--example", "samplers", str(tmp_path)) == 2
    assert "exists already" in capsys.readouterr().err
    assert call("--example", "sampler", str(tmp_path)) == 2
    assert "there is no example 'sampler'; examples are " in capsys.readouterr().err


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--json says what was written."""
    assert call("--preset", "own-recipe", str(tmp_path), "--json") == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert files == [str(tmp_path / "run.toml"), str(tmp_path / "my_recipe.py")]
