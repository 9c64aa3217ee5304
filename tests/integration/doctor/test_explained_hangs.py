"""Hangs of whole runs, as a person starts them: trainers unchanged, and a recipe."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from support.cli.command import Command, agent_events
from support.doctor.cases import SAMPLE, Case, of
from support.doctor.faults import lines
from support.doctor.measured import Measured, marked, measured
from support.doctor.programs import TRAINERS
from support.training.inside_scripts import ScriptRun
from support.training.training import Training
from support.waiting import wait_until
from torchdeck.contract.journal import Event
from torchdeck.contract.layout import RunLayout

pytestmark = [pytest.mark.doctor, pytest.mark.timeout(400)]
HANG_AFTER = ("--set", "launch.hang_after=4")
LIMIT = 120
PROGRAMS = (*TRAINERS, "recipe")


class Project:
    """A case's program and run file, with a home of its own."""

    def __init__(self, case: Case, program: Measured, folder: Path) -> None:
        self.case, self.command = case, Command(folder / "home")
        if case.program == "recipe":
            training = Training(folder / "work", nproc=case.ranks, steps=min(4000, program.steps))
            self.config = training.write(0.02)
            self._file = training.folder / "paced_recipe.py"
            self._file.write_text(self._file.read_text() + program.text)
        else:
            script = ScriptRun(folder / "project", folder / "home")
            self.config = script.config(program.text, ranks=case.ranks)
            self._file = script.folder / "train.py"

    @property
    def file(self) -> str:
        """Name of the file that has the fault."""
        return self._file.name

    @property
    def text(self) -> str:
        """All of it."""
        return self._file.read_text()

    def first_hang(self, run: RunLayout) -> Event | None:
        """The first verdict, or None if there is none or the run ends."""

        def said() -> bool:
            return bool(agent_events(run, "hang") or agent_events(run, "finished"))

        with suppress(AssertionError):
            wait_until(said, LIMIT, "a verdict")
        return next(iter(agent_events(run, "hang")), None)


@contextmanager
def stopping(command: Command) -> Iterator[None]:
    """The run cannot end by itself."""
    try:
        yield
    finally:
        command.run("runs", "stop", "latest", "--now")


def check_shown(project: Project, sentence: str) -> None:
    """The sentence and the stacks that `runs show` and `runs stacks` tell."""
    command, places = project.command, [f"{project.file}:{line} " for line in lines(project.text)]
    shown = command.run("runs", "show", "latest").stdout
    assert " ".join(sentence.split()[:8]) in " ".join(shown.split())
    assert "attempts/1/examinations/1" in shown
    stacks = command.json("runs", "stacks", "latest")
    assert stacks["sentence"] == sentence
    ranks = sorted(rank for stack in stacks["stacks"] for rank in stack["ranks"])
    assert ranks == list(range(project.case.ranks))
    frames = [frame for stack in stacks["stacks"] for frame in stack["frames"]]
    assert any(place in frame for place in places for frame in frames)


@pytest.mark.parametrize("case", marked(of(*PROGRAMS)))
def test_a_hang_is_explained(case: Case, tmp_path: Path) -> None:
    """What known trainers do around the fault hides nothing: the line is the user's."""
    strict = case in SAMPLE
    with measured(case, tmp_path) as program:
        project = Project(case, program, tmp_path)
        front = project.command.start("--no-gui", "--trust", *HANG_AFTER, project.config)
        with front as process, stopping(project.command), program.thawing():
            run = project.command.the_run()
            event = project.first_hang(run)
            assert event is not None or not strict, process.communicate(timeout=30)[0]
            program.hang(event, project.file, project.text, strict=strict)
            if strict and event is not None:
                sentence = str(event.fields["detail"])
                assert " for it in " in sentence
                check_shown(project, sentence)


@pytest.mark.parametrize("case", marked(of(*PROGRAMS, hangs=False)))
def test_a_long_pause_is_no_hang(case: Case, tmp_path: Path) -> None:
    with measured(case, tmp_path) as program:
        project = Project(case, program, tmp_path)
        policy = (*HANG_AFTER, "--set", "launch.on_hang='stop'")
        done = project.command.run("--no-gui", "--trust", *policy, project.config, timeout=300)
        hangs = agent_events(project.command.the_run(), "hang")
        program.healthy(hangs, strict=False)
    assert done.returncode == 0 or hangs, done.stdout + done.stderr
