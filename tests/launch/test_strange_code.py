"""Code that a look at a run file would run: of strangers none, and of one's own without a question."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.run_files import load, write
from torchdeck.launch.strange_code import strange_interpreter, untrusted
from torchdeck.launch.trust import trust

RECIPE = '[run]\nrecipe = "model.py"\n[training]\nsteps = 1\n'


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o700)
    return path


def test_recipe_and_interpreter_are_asked_about_one_after_the_other(home: Path, tmp_path: Path) -> None:
    code = tmp_path / "code"
    write(code, "", "model.py")
    python = executable(tmp_path / "tools" / "python")
    config = load(code, RECIPE.replace("[training]", f'interpreter = "{python}"\n[training]'))
    home.mkdir(exist_ok=True)
    assert untrusted(config, home) == code
    trust(code, home)
    assert untrusted(config, home) == python.parent
    trust(tmp_path, home)
    assert untrusted(config, home) is None


def test_built_in_recipes_and_scripts_are_not_asked_about(home: Path, tmp_path: Path) -> None:
    """Of a script nothing runs before the launch."""
    write(tmp_path, "", "t.py")
    for text in (RECIPE.replace("model.py", "byte-gpt"), '[run]\nscript = "t.py"\n'):
        assert untrusted(load(tmp_path, text), home) is None


def test_a_strange_file_is_asked_about_that_names_a_trusted_recipe(home: Path, tmp_path: Path) -> None:
    """Where it lets the recipe start, as Python imports from there; and for variables its own folder."""
    code, strange = tmp_path / "code", tmp_path / "strange"
    write(code, "", "model.py")
    home.mkdir(exist_ok=True)
    trust(code, home)
    text = RECIPE.replace("model.py", str(code / "model.py"))

    def asked_about(more: str, *files: Path) -> Path | None:
        return untrusted(load(strange, text.replace("[training]", f"{more}\n[training]")), home, files)

    here = strange / "run.toml"
    assert asked_about("", here) == strange
    elsewhere = f'working_dir = "{code}"'
    assert asked_about(elsewhere, here) is None
    assert asked_about(f'{elsewhere}\nenv = {{A = "1"}}', here) == strange
    assert asked_about(f'{elsewhere}\nenv = {{A = "1"}}', code / "base.toml", here) == strange
    assert asked_about(f'{elsewhere}\nenv = {{A = "1"}}', code / "run.toml") is None
    assert asked_about(f'working_dir = "{tmp_path / "none"}"', here) is None
    (code / "link").symlink_to(strange)
    assert asked_about(f'working_dir = "{code / "link"}"', here) == code / "link"
    trust(strange, home)
    assert asked_about('env = {A = "1"}', here) is None


def test_of_a_virtual_environment_all_of_it_is_meant(home: Path, tmp_path: Path) -> None:
    python = executable(tmp_path / "venv" / "bin" / "python")
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    assert strange_interpreter(str(python), home) == tmp_path / "venv"


def test_a_python_that_the_user_could_start_by_name_is_no_stranger(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = executable(tmp_path / "bin" / "python9")
    assert strange_interpreter(str(python), home) == python.parent
    monkeypatch.setenv("PATH", str(python.parent))
    assert strange_interpreter(str(python), home) is None
    for ours in (None, "python3", sys.executable, str(tmp_path / "none")):
        assert strange_interpreter(ours, home) is None
