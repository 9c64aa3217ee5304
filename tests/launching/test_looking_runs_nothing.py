"""A run file of a stranger's executes nothing before its code is trusted, whatever looks at it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import torchdeck
from support.values.run_files import write
from torchdeck.cli.main import main
from torchdeck.config.loader import load_config
from torchdeck.plan.check import PreflightError
from torchdeck.use_cases.previewer import Previewer

Look = Callable[[Path], object]
SCRIPT = '[run]\nscript = "t.py"\n{}\n[distributed]\nnproc = 1\ndevices = "cpu"\n'
RECIPE = '[run]\nrecipe = "{}"\n{}\n[distributed]\nnproc = 1\ndevices = "cpu"\n[training]\nsteps = 1\n'


def by_command(*words: str) -> Look:
    def look(run_file: Path) -> object:
        return main([*words, str(run_file)])

    return look


def by_library(run_file: Path) -> object:
    with pytest.raises(PreflightError, match="not trusted yet"):
        torchdeck.launch(run_file)
    return None


def by_preview(run_file: Path, home: Path) -> object:
    previewer = Previewer(home)
    loaded = load_config(run_file)
    previewer.preview(loaded)
    previewer.trace(loaded, lambda _text: None)
    return None


LOOKS: dict[str, Look] = {
    "plan": by_command("plan"),
    "plan without a trace": by_command("plan", "--no-trace"),
    "plan as JSON": by_command("plan", "--json"),
    "plan of files": by_command("plan", "--files"),
    "export": by_command("plan", "--export", "sh"),
    "check": by_command("check"),
    "quick check": by_command("check", "--quick"),
    "launch": by_command("--no-gui"),
    "library": by_library,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "sent"
    write(folder, "", "t.py")
    return folder


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A file that is there once code of the folder has run."""
    return tmp_path / "ran"


def program(path: Path, mark: Path) -> None:
    """A Python that leaves the mark, and is otherwise the one that runs this."""
    path.write_text(f'#!/bin/sh\ntouch {mark}\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)


@pytest.mark.processes
@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_the_python_that_a_strange_file_names_is_not_started(
    look: Look, folder: Path, mark: Path, torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program(folder / "py", mark)
    run_file = folder / "run.toml"
    run_file.write_text(SCRIPT.format('interpreter = "./py"'))
    look(run_file)
    assert not mark.exists()
    said = capsys.readouterr()
    if look is not by_library:
        assert f"{folder} is not trusted yet" in said.out + said.err
        assert f"torchdeck trust add {folder}" in said.out + said.err


@pytest.mark.processes
@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
@pytest.mark.parametrize("how", ["recipe", "import of the working directory", "variable", "link"])
def test_nothing_that_a_strange_recipe_brings_along_is_executed(
    look: Look, how: str, folder: Path, mark: Path, torchdeck_home: Path, tmp_path: Path
) -> None:
    """Though the recipe itself is trusted, in three of the four."""
    code = f"open({str(mark)!r}, 'w')\n"
    own = tmp_path / "own"
    write(own, "import torch\n", "model.py")
    main(["trust", "add", str(own)])
    text = RECIPE.format(own / "model.py", "")
    if how == "recipe":
        write(folder, code, "model.py")
        text = RECIPE.format("model.py", "")
    elif how == "import of the working directory":
        write(folder, code, "torch.py")
    elif how == "variable":
        write(folder, code, "sitecustomize.py")
        text = RECIPE.format(own / "model.py", f'working_dir = "{own}"\nenv = {{PYTHONPATH = "{folder}"}}')
    else:
        write(folder, code, "evil.py")
        (own / "link.py").symlink_to(folder / "evil.py")
        text = RECIPE.format(own / "link.py", f'working_dir = "{own}"')
    (folder / "run.toml").write_text(text)
    look(folder / "run.toml")
    assert not mark.exists()


def test_the_windows_preview_starts_nothing_either(folder: Path, mark: Path, torchdeck_home: Path) -> None:
    program(folder / "py", mark)
    write(folder, f"open({str(mark)!r}, 'w')\n", "model.py")
    (folder / "run.toml").write_text(RECIPE.format("model.py", 'interpreter = "./py"'))
    by_preview(folder / "run.toml", torchdeck_home)
    assert not mark.exists()


@pytest.mark.processes
def test_what_is_trusted_is_started(folder: Path, mark: Path, torchdeck_home: Path) -> None:
    program(folder / "py", mark)
    (folder / "run.toml").write_text(SCRIPT.format('interpreter = "./py"'))
    assert main(["trust", "add", str(folder)]) == 0
    assert main(["plan", "--no-trace", str(folder / "run.toml")]) == 0
    assert mark.exists()


@pytest.mark.processes
@pytest.mark.parametrize("words", [("plan",), ("check", "--quick")], ids=["plan", "check"])
def test_an_option_trusts_what_the_command_would_execute(
    words: tuple[str, ...], folder: Path, mark: Path, torchdeck_home: Path
) -> None:
    program(folder / "py", mark)
    (folder / "run.toml").write_text(SCRIPT.format('interpreter = "./py"'))
    main([*words, "--trust", str(folder / "run.toml")])
    assert mark.exists()


def test_what_others_can_write_is_not_started_though_it_is_trusted(
    folder: Path, mark: Path, torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program(folder / "py", mark)
    (folder / "run.toml").write_text(SCRIPT.format('interpreter = "./py"'))
    main(["trust", "add", str(folder)])
    (folder / "py").chmod(0o777)
    assert main(["check", "--quick", str(folder / "run.toml")]) == 3
    assert not mark.exists()
    assert "cannot be trusted: everyone can write" in " ".join(capsys.readouterr().out.split())
    assert main(["check", "--quick", "--trust", str(folder / "run.toml")]) == 3
    assert f"chmod o-w {folder / 'py'}" in capsys.readouterr().err
    assert not mark.exists()
