"""`torchdeck sweep` as far as nothing is started: what is refused, listed and shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli.command_here import CommandHere
from torchdeck.cli.sweep.sweep_command import with_verb
from torchdeck.config.loader import load_config
from torchdeck.contract.journal import JournalWriter
from torchdeck.sweeps.goal import Goal
from torchdeck.sweeps.pruning import Pruner, Pruning
from torchdeck.sweeps.sweep_layout import SweepLayout
from torchdeck.sweeps.sweep_request import read_request
from torchdeck.sweeps.sweep_state import BEGUN, ENDED, INFEASIBLE, STARTED, SweepFollower
from torchdeck.use_cases.sweeps.begin import SweepStart, begin_sweep, sweep_request
from torchdeck.use_cases.sweeps.changes import extend, request_resume
from torchdeck.use_cases.sweeps.listing import look_at

RUN = '[run]\nscript = "train.py"\nargs = ["{lr}"]\n'


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    path = tmp_path / "toy.toml"
    path.write_text(RUN)
    return path


@pytest.fixture
def command(torchdeck_home: Path) -> CommandHere:
    return CommandHere(torchdeck_home)


def written(run_file: Path, *, trials: int = 3) -> SweepLayout:
    """A sweep with three trials: complete, pruned, infeasible."""
    overrides = ['sweep.metric="loss"', 'sweep.strategy="grid"', f"sweep.trials={trials}"]
    loaded = load_config(run_file, overrides)
    layout = begin_sweep(SweepStart(loaded, ("lr=0.1,0.2,0.3,0.4,0.5",)))
    with JournalWriter(layout.journal) as journal:
        for trial, outcome, value in ((1, "complete", 2.5), (2, "pruned", 9.0)):
            journal.append(BEGUN, trial=trial, seed=0, name="n", point={"lr": trial / 10})
            journal.append(STARTED, trial=trial, seed=0, run=f"run-{trial}")
            journal.append(
                ENDED, trial=trial, seed=0, outcome=outcome, value=value, steps=10, history=[[10, value]]
            )
        journal.append(BEGUN, trial=3, seed=0, name="n", point={"lr": 0.3})
        journal.append(INFEASIBLE, trial=3, seed=0, why="it needs 90 GiB")
    return layout


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--over", "lrr=1,2", "--metric", "loss"], "--over: lrr: there is no such key"),
        (["--over", "lr=1,2"], "sweep.metric: it is not given"),
        (["--metric", "loss"], "nothing to vary"),
        (["--over", "lr=0..1", "--metric", "loss"], "trials: the number of trials is not given"),
        (["--over", "lr=1,2", "--metric", "loss", "--seeds", "2"], "does not take the seed"),
        (
            ["--over", "lr=1,2", "--metric", "loss", "--at-once", "0"],
            "--set: sweep.at_once: 0 is out of range",
        ),
        (["--over", "lr=0..1", "--metric", "loss", "--strategy", "zip"], "a zip needs values"),
    ],
)
def test_a_wrong_request_is_refused_and_nothing_is_written(
    command: CommandHere, run_file: Path, options: list[str], text: str
) -> None:
    done = command.run("sweep", run_file, *options)
    assert done.returncode == 2
    assert text in done.stderr
    assert not (command.home / "sweeps").exists()


def test_a_sweep_is_listed_and_shown(command: CommandHere, run_file: Path) -> None:
    layout = written(run_file)
    listed = command.run("sweep", "list").stdout
    best = "best: trial 1, loss 2.5000 with lr=0.1 (run run-1)"
    assert listed == f"{layout.id}  ended  3 of 3 trials: 1 complete, 1 pruned, 1 infeasible; {best}\n"
    shown = command.run("sweep", "show", layout.suffix).stdout.splitlines()
    assert shown[0] == f"sweep {layout.id}: ended"
    assert shown[1] == "grid over lr=0.1,0.2,0.3,0.4,0.5"
    assert shown[5].split() == ["1", "complete", "2.5000", "2.5000", "10", "0.1", "run-1"]
    assert shown[6].split() == ["2", "pruned", "(9.0000)", "10", "0.2", "run-2"]
    assert shown[7].split() == ["3", "infeasible", "0", "0.3"]
    (row,) = command.json("sweep", "list")
    assert (row["id"], row["status"], row["counts"]["pruned"]) == (layout.id, "ended", 1)
    found = command.json("sweep", "show", "toy")
    assert [trial["state"] for trial in found["trials"]] == ["complete", "pruned", "infeasible"]


def test_a_sweep_that_does_not_exist_is_refused(command: CommandHere, run_file: Path) -> None:
    assert command.run("sweep", "list").stdout.startswith("no sweeps yet")
    done = command.run("sweep", "show", "latest")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no sweep 'latest'" in done.stderr
    written(run_file)
    written(run_file)
    assert "fits 2 sweeps" in command.run("sweep", "show", "toy").stderr


def test_changes_that_make_no_sense_are_refused(command: CommandHere, run_file: Path) -> None:
    layout = written(run_file)
    for options, text in (
        ([], "neither trials nor values"),
        (["--trials", "20000"], "at most 10,000 trials"),
        (["--over", "seed=1,2"], "no such key"),
        (["--over", "distributed.nproc=1,2"], "the sweep does not vary it"),
        (["--over", "lr=0..1", "--trials", "1"], "a grid needs values"),
        (["--over", "lr=0.1,0.2", "--trials", "1"], "nothing left to try"),
    ):
        done = command.run("sweep", "extend", "latest", *options)
        assert text in done.stderr, options
        assert done.returncode in (2, 3)
    assert not layout.changes.exists()
    assert "has ended: nothing to stop" in command.run("sweep", "stop", "latest").stderr


def test_a_damaged_sweep_is_listed_with_the_reason(command: CommandHere, run_file: Path) -> None:
    layout = written(run_file)
    layout.request.write_text("{")
    assert "unreadable  " in command.run("sweep", "list").stdout
    assert "is damaged" in command.run("sweep", "show", "latest").stderr
    (row,) = command.json("sweep", "list")
    assert row["status"] == "unreadable"


def test_overrides_with_paths_do_not_depend_on_the_folder(
    run_file: Path, monkeypatch: pytest.MonkeyPatch, torchdeck_home: Path
) -> None:
    monkeypatch.chdir(run_file.parent)
    overrides = ("run.script=other.py", "run.interpreter=python3", "distributed.nproc=2")
    loaded = load_config(run_file, (*overrides, "sweep.metric=loss"))
    start = SweepStart(loaded, ("lr=1,2",), overrides=overrides, home=torchdeck_home)
    layout = begin_sweep(start)
    monkeypatch.chdir("/")
    config = read_request(layout.request).file.loaded().config
    assert config.run.script == str(run_file.parent / "other.py")
    assert config.run.interpreter == "python3"


def test_varied_paths_do_not_depend_on_the_folder_of_the_driver(
    run_file: Path, monkeypatch: pytest.MonkeyPatch, torchdeck_home: Path
) -> None:
    """Those of the table are relative to the run file, those of the command line to the current folder."""
    here, files = run_file.parent / "here", run_file.parent
    here.mkdir()
    monkeypatch.chdir(here)
    run_file.write_text(RUN + '[sweep]\nmetric = "loss"\nover = ["run.script=a.py,b.py"]\n')
    of_table = sweep_request(SweepStart(load_config(run_file), ("lr=1,2",)))
    assert of_table.over == (f'run.script="{files}/a.py","{files}/b.py"', "lr=1,2")
    given = SweepStart(load_config(run_file), ("run.script=a.py,/x/b.py",), home=torchdeck_home)
    layout = begin_sweep(given)
    assert read_request(layout.request).over == (f'run.script="{here}/a.py","/x/b.py"',)
    extend(layout, 1, ["run.script=a.py,c.py"])
    monkeypatch.chdir("/")
    values = [parameter.domain.ends for parameter in SweepFollower(layout).refresh().space]
    assert values == [(f"{here}/a.py", f"{here}/c.py")]


def test_a_failed_sweep_can_be_resumed_and_extended(run_file: Path, torchdeck_home: Path) -> None:
    loaded = load_config(run_file, ["sweep.metric=loss"])
    layout = begin_sweep(SweepStart(loaded, ("lr=1,2,3,4",), home=torchdeck_home))
    with JournalWriter(layout.journal) as journal:
        for trial in (1, 2, 3):
            journal.append(BEGUN, trial=trial, seed=0, name="n", point={"lr": trial})
            journal.append(ENDED, trial=trial, seed=0, outcome="failed")
    assert look_at(layout).status == "failed"
    request_resume(layout)
    assert look_at(layout).status == "interrupted"
    layout.changes.unlink()
    extend(layout, 1)
    assert look_at(layout).status == "interrupted"


def test_the_table_of_the_run_file_has_the_same_options(run_file: Path) -> None:
    """The command line adds parameters, and replaces those of the same name."""
    table = (
        '[sweep]\nover = ["lr=1,2", "distributed.nproc=1,2"]\nmetric = "accuracy"\nprune = "asha"\n'
        "prune_after = 5\nseed = 3\nat_once = 2\n"
    )
    run_file.write_text(RUN + table)
    request = sweep_request(SweepStart(load_config(run_file, ["sweep.at_once=4"]), ("lr=3",)))
    assert request.over == ("distributed.nproc=1,2", "lr=3")
    assert (request.trials, request.seed, request.at_once) == (2, 3, 4)
    assert request.goal == Goal("accuracy", is_high=True)
    assert request.pruning == Pruning(Pruner.ASHA, 5)


def test_the_verb_of_a_new_sweep_can_be_left_out() -> None:
    assert with_verb(["sweep", "run.toml", "-x"]) == ["sweep", "start", "run.toml", "-x"]
    assert with_verb(["sweep", "list"]) == ["sweep", "list"]
    assert with_verb(["sweep", "--help"]) == ["sweep", "--help"]
    assert with_verb(["runs", "list"]) == ["runs", "list"]
