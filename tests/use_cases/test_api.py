"""`torchdeck.launch(...)`: what the command does, from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import torchdeck
from support.cli.command import Command
from torchdeck.config.loader import load_config
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.inventory.file import parse_inventory
from torchdeck.nodes.ssh.credentials import Asker
from torchdeck.nodes.ssh.errors import HostKeyUnknownError
from torchdeck.nodes.ssh.target import SshTarget, target_of
from torchdeck.plan.check import PlanError
from torchdeck.runs.home import HomeError
from torchdeck.use_cases.api import CallbackAsker, PreflightError


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    (tmp_path / "script.py").write_text("print('hello')\n")
    path = tmp_path / "run.toml"
    path.write_text('# mine\n[run]\nscript = "script.py"\n[distributed]\nnproc = 1\n')
    return path


@pytest.mark.processes
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


@pytest.mark.processes
def test_nothing_is_started_where_a_check_fails(home: Path, run_file: Path) -> None:
    """A missing script is told by the checks before the start; there is no run then."""
    (run_file.parent / "script.py").unlink()
    with pytest.raises(PreflightError, match="does not exist") as caught:
        torchdeck.launch(run_file)
    assert caught.value.checks[0].status == "failed"
    assert not (home / "runs").exists()


@pytest.mark.processes
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


@pytest.mark.processes
def test_a_problem_has_the_file_and_line_that_the_command_names(home: Path, run_file: Path) -> None:
    """What does not fit the machine is located, as `torchdeck --no-gui` locates it."""
    run_file.write_text(run_file.read_text() + "devices = [63]\n")
    with pytest.raises(PlanError) as caught:
        torchdeck.launch(run_file)
    (problem, *_) = caught.value.parts()
    done = Command(home).run("--no-gui", str(run_file))
    place = f"{problem.file}:{problem.line}: {problem.key}: "
    assert place == f"{run_file}:6: distributed.devices[0]: "
    assert place in done.stderr
    assert problem.what in done.stderr
    assert problem.fix in done.stderr


@pytest.mark.processes
def test_warnings_are_those_of_the_command(
    home: Path, run_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are printed unless the program takes them."""
    token = "hf" + "_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0iL3o"
    text = run_file.read_text()
    run_file.write_text(text.replace("[distributed]", f'env = {{ HF_TOKEN = "{token}" }}\n[distributed]'))
    taken: list[str] = []
    torchdeck.launch(run_file, on_warning=taken.append).wait(60)
    assert capsys.readouterr().err == ""
    torchdeck.launch(run_file).wait(60)
    printed = capsys.readouterr().err.splitlines()
    done = Command(home).run("--no-gui", str(run_file))
    said = [line for line in done.stderr.splitlines() if line.startswith("torchdeck: warning: ")]
    assert taken
    assert printed == said == [f"torchdeck: warning: {warning}" for warning in taken]


def test_a_login_is_asked_for_by_the_callback(tmp_path: Path) -> None:
    """One question of plain text each; no answer declines."""
    questions: list[str] = []
    answers = iter(["secret", "", None, "yes", "no"])

    def ask(question: str) -> str | None:
        questions.append(question)
        return next(answers)

    asker = CallbackAsker(ask)
    target = target_of(
        "n1", parse_inventory('[nodes.n1]\naddress = "10.0.0.1"\nuser = "me"\n', "nodes.toml"), tmp_path
    )
    assert asker.password(target, again=False) == "secret"
    assert asker.password(target, again=True) is None
    assert asker.passphrase(tmp_path / "key", again=False) is None
    assert asker.trust(target, "ssh-ed25519", "SHA256:abc") is True
    assert asker.trust(target, "ssh-ed25519", "SHA256:abc") is False
    assert questions[:2] == ["Password of me@10.0.0.1: ", "Wrong. Password of me@10.0.0.1: "]
    assert "SHA256:abc" in questions[3]


@pytest.mark.processes
def test_a_node_that_wants_a_login_asks_the_program(
    home: Path, run_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connector that a launch gets has the callback behind its asker."""

    def connect(target: SshTarget, _credentials: object, asker: Asker, _limit: float) -> None:
        asker.trust(target, "ssh-ed25519", "SHA256:abc")
        raise HostKeyUnknownError(target.name, "its host key is not trusted", "ssh-ed25519", "SHA256:abc")

    monkeypatch.setattr("torchdeck.nodes.connector.connect", connect)
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "nodes.toml").write_text('[nodes.n1]\naddress = "10.0.0.1"\n')
    questions: list[str] = []

    def ask(question: str) -> str | None:
        questions.append(question)
        return "no"

    with pytest.raises(Refusal, match="not trusted"):
        torchdeck.launch(run_file, overrides=['distributed.nodes=["n1"]'], ask=ask)
    assert questions
    assert all(question.startswith("n1: host key") for question in questions)
