"""Run files to begin with."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from torchdeck.config.loader import load_config
from torchdeck.config.starting_files import (
    is_recipe,
    named,
    preset_companions,
    preset_files,
    preset_names,
    preset_text,
    recipe_text,
    script_text,
    what_remains,
)


@pytest.mark.parametrize("preset", preset_names())
def test_a_preset_brings_its_companions(preset: str, tmp_path: Path) -> None:
    """The run file comes first, and says what the preset says."""
    files = preset_files(preset, tmp_path / "first.toml")
    assert next(iter(files)) == tmp_path / "first.toml"
    assert {path.name for path in list(files)[1:]} == set(preset_companions(preset))
    assert tomllib.loads(files[tmp_path / "first.toml"]) == tomllib.loads(preset_text(preset))


def test_comments_name_the_file() -> None:
    assert named('# run.toml\na = "run.toml"\n', "my run.toml") == "# 'my run.toml'\na = \"run.toml\"\n"
    assert named("# run.toml\n", "bad\nname.toml") == "# run.toml\n"


def test_what_remains_to_be_done() -> None:
    assert {name: what_remains(preset_text(name)) for name in preset_names()} == {
        **dict.fromkeys(("quickstart", "accelerate", "hf-lora", "hf-sft", "lightning", "nanogpt"), "nothing"),
        "torchtitan": "nothing",
        "bdh": "nothing",
        "cluster": "plan only",
        "digits": "nothing",
        "finetune": "batch plan",
        "fsdp": "nothing",
        "hf-finetune": "files",
        "image-folder": "files",
        "own-recipe": "nothing",
        "script": "script",
    }


@pytest.mark.parametrize("name", ["train.py", 'odd "name"\\ ü.py', "new\nline.py"])
def test_a_script_gets_a_run_file(name: str, tmp_path: Path) -> None:
    """It loads, and names the script wherever that lies."""
    (tmp_path / name).write_text("print(1)\n")
    run_file = tmp_path / "run.toml"
    run_file.write_text(script_text(tmp_path / name, tmp_path))
    assert load_config(run_file).config.run.script == str(tmp_path / name)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "run.toml").write_text(script_text(tmp_path / name, elsewhere))
    assert load_config(elsewhere / "run.toml").config.run.script == str(tmp_path / name)


def test_a_recipe_file_is_known_by_its_functions(tmp_path: Path) -> None:
    source = preset_companions("own-recipe")["my_recipe.py"]
    assert is_recipe(source)
    assert not is_recipe("import torch\n")
    assert not is_recipe("def build_model(:\n")
    (tmp_path / "mine.py").write_text(source)
    (tmp_path / "run.toml").write_text(recipe_text(tmp_path / "mine.py", tmp_path))
    assert load_config(tmp_path / "run.toml").config.run.recipe == str(tmp_path / "mine.py")
