"""Slow ranks of whole runs, as a person starts them: trainers unchanged, and a recipe."""

from pathlib import Path

import pytest

from support.cli.command import Command, wait_for_event
from support.doctor.faults import Fault
from support.doctor.programs import TRAINERS, Place, program
from support.training.inside_scripts import ScriptRun
from support.training.training import Training
from torchdeck.agent.doctor.evidence import Kind

pytestmark = [pytest.mark.doctor, pytest.mark.soak]
LIMIT = 150


SLOW = Fault("is-slow", "time.sleep(0.08)", Kind.ELSEWHERE)
"""In every step of rank 1."""


def slowed(name: str, folder: Path) -> str:
    return program(name, SLOW, Place(str(folder / "began")), always=True)


def check(command: Command) -> None:
    """Rank 1 is named in the journal, and by `runs show` as text and as JSON."""
    told = wait_for_event(command.the_run(), "straggler", LIMIT).fields
    assert told["ranks"] == [1], told
    assert 0.25 < told["share"] < 0.9, told
    shown = " ".join(command.run("runs", "show", "latest").stdout.split())
    assert "Rank 1 makes the others wait" in shown
    assert command.json("runs", "show", "latest")["stragglers"][0]["ranks"] == [1]


@pytest.mark.parametrize("name", TRAINERS)
def test_a_trainer_of_others(name: str, tmp_path: Path) -> None:
    script = ScriptRun(tmp_path / "project", tmp_path / "home")
    config = script.config(slowed(name, tmp_path))
    with script.command.start("--no-gui", "--trust", config):
        try:
            check(script.command)
        finally:
            script.command.run("runs", "stop", "latest", "--now")


def test_a_recipe(tmp_path: Path) -> None:
    command, training = Command(tmp_path / "home"), Training(tmp_path / "work", steps=4000)
    config = training.write(0.02)
    recipe = training.folder / "paced_recipe.py"
    recipe.write_text(recipe.read_text() + slowed("recipe", tmp_path))
    with command.start("--no-gui", "--trust", config):
        try:
            check(command)
        finally:
            command.run("runs", "stop", "latest", "--now")
