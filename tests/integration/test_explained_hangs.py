"""Hangs of whole runs, as a person starts them: trainers unchanged, and a recipe."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.cli.command import Command, wait_for_event
from support.doctor.faults import lines
from support.doctor.trainer_faults import PROGRAMS, RECIPE
from support.training.inside_scripts import ScriptRun
from support.training.training import Training
from torchdeck.contract.layout import RunLayout

pytestmark = pytest.mark.doctor
HANG_AFTER = "launch.hang_after=4"
LIMIT = 120


def check(run: RunLayout, name: str, text: str) -> str:
    """Rank 1 is blamed at its line, and rank 0 waits for it in a collective; returns the sentence."""
    told = wait_for_event(run, "hang", LIMIT).fields
    assert (told["kind"], told["rank"]) == ("elsewhere", 1), told
    assert f"{name}:{lines(text)[-1]} " in told["detail"]
    assert "rank 0 waits for it in " in told["detail"]
    return str(told["detail"])


@contextmanager
def stopping(command: Command) -> Iterator[None]:
    """The run cannot end by itself."""
    try:
        yield
    finally:
        command.run("runs", "stop", "latest", "--now")


@pytest.mark.parametrize("program", ["hugging-face", pytest.param("lightning", marks=pytest.mark.soak)])
def test_a_trainer_of_others(program: str, tmp_path: Path) -> None:
    """Its callbacks and its own processes hide nothing: the line is the user's."""
    script = ScriptRun(tmp_path / "project", tmp_path / "home")
    config = script.config(PROGRAMS[program])
    text = (script.folder / "train.py").read_text()
    arguments = ("--no-gui", "--trust", "--set", HANG_AFTER, config)
    with script.command.start(*arguments), stopping(script.command):
        sentence = check(script.command.the_run(), "train.py", text)
        shown = script.command.run("runs", "show", "latest").stdout
        assert " ".join(sentence.split()[:8]) in " ".join(shown.split())
        assert "attempts/1/examinations/1" in shown
        stacks = script.command.json("runs", "stacks", "latest")
        assert stacks["sentence"] == sentence
        first, second = stacks["stacks"]
        assert (first["ranks"], second["ranks"]) in (([0], [1]), ([1], [0]))
        assert any(f"train.py:{lines(text)[-1]} " in frame for frame in first["frames"] + second["frames"])


@pytest.mark.soak
def test_a_recipe(tmp_path: Path) -> None:
    command, training = Command(tmp_path / "home"), Training(tmp_path / "work", steps=4000)
    config = training.write(0.02)
    recipe = training.folder / "paced_recipe.py"
    text = recipe.read_text() + RECIPE
    recipe.write_text(text)
    arguments = ("--no-gui", "--trust", "--set", HANG_AFTER, config)
    with command.start(*arguments), stopping(command):
        check(command.the_run(), "paced_recipe.py", text)
