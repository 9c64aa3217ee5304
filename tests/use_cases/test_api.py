"""`torchdeck.launch(...)`: what the command does, from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import torchdeck
from torchdeck.config.loader import load_config
from torchdeck.plan.problems import PlanError
from torchdeck.runs.home import HomeError
from torchdeck.use_cases.api import PreflightError


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    (tmp_path / "script.py").write_text("print('hello')\n")
    path = tmp_path / "run.toml"
    path.write_text('# mine\n[run]\nscript = "script.py"\n[distributed]\nnproc = 1\n')
    return path


def test_every_form_of_a_config_runs(home: Path, run_file: Path) -> None:
    """A path, a loaded config and a table start a run each, with the text of what was given frozen."""
    script = str(run_file.parent / "script.py")
    table = {"run": {"script": script}, "distributed": {"nproc": 1}}
    runs = [torchdeck.launch(run_file), torchdeck.launch(load_config(run_file)), torchdeck.launch(table)]
    for run in runs:
        assert run.wait(60).state == "SUCCEEDED"
        assert run.layout.attempt(1).rank(0).stdout.read_text() == "hello\n"
    assert runs[0].layout.config.read_text() == run_file.read_text()
    assert load_config(runs[2].layout.config).config.run.script == script
    assert runs[0].view().source == str(run_file)
    assert runs[0].directory.parent == home / "runs"


def test_nothing_is_started_where_a_check_fails(home: Path, run_file: Path) -> None:
    """A missing script is told by the checks before the start; there is no run then."""
    (run_file.parent / "script.py").unlink()
    with pytest.raises(PreflightError, match="does not exist") as caught:
        torchdeck.launch(run_file)
    assert caught.value.checks[0].status == "failed"
    assert not (home / "runs").exists()


def test_what_does_not_fit_the_machine_is_refused(home: Path, run_file: Path) -> None:
    """Devices that are not here are a PlanError."""
    with pytest.raises(PlanError):
        torchdeck.launch(run_file, overrides=["distributed.devices=[63]"])
    assert not (home / "runs").exists()


def test_overrides_are_for_what_is_not_loaded(run_file: Path) -> None:
    """A loaded config has its values already."""
    with pytest.raises(TypeError, match="overrides"):
        torchdeck.launch(load_config(run_file), overrides=["run.args=[]"])


def test_unusable_home_is_an_error_of_its_own(run_file: Path) -> None:
    """The home given wins over the environment's, and is checked."""
    with pytest.raises(HomeError):
        torchdeck.launch(run_file, home="/proc/nowhere")
