"""A project with a module of its own that is called `torchdeck`, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agents.controlled_run import nothing_left
from support.cli.command import Command

pytestmark = pytest.mark.processes


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    """`torchdeck` with a home whose runs leave nothing behind, and the project's module."""
    (tmp_path / "torchdeck.py").write_text("MINE = 'own module'\n")
    home = tmp_path / "home"
    with nothing_left(home):
        yield Command(home)


def test_a_script_imports_its_own(command: Command, tmp_path: Path) -> None:
    """As without Torchdeck; what it lacks by that is said before the start."""
    (tmp_path / "train.py").write_text("import torchdeck\nprint('has', torchdeck.MINE)\n")
    (tmp_path / "run.toml").write_text('[run]\nscript = "train.py"\n')
    assert "no callbacks are added" in command.run("plan", tmp_path / "run.toml").stdout.replace("\n", " ")
    done = command.run("--no-gui", tmp_path / "run.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[rank 0] has own module" in done.stdout


def test_a_recipe_is_refused(command: Command, tmp_path: Path) -> None:
    """The trainer would be looked for in that module."""
    (tmp_path / "run.toml").write_text('[run]\nrecipe = "byte-gpt"\n[training]\nsteps = 1\n')
    done = command.run("--no-gui", tmp_path / "run.toml")
    assert done.returncode == 3
    assert f"{tmp_path / 'torchdeck.py'} would be imported instead of Torchdeck" in done.stderr
    assert "rename it" in done.stderr


def test_torchdeck_itself_is_no_other_module(command: Command, tmp_path: Path) -> None:
    """Its own sources may be the working directory."""
    (tmp_path / "torchdeck.py").unlink()
    core = Path(__file__).parents[2] / "core"
    (tmp_path / "run.toml").write_text(
        f'[run]\nmodule = "torchdeck"\nworking_dir = "{core}"\nsync = "none"\n'
    )
    assert "no callbacks" not in command.run("plan", tmp_path / "run.toml").stdout.replace("\n", " ")
