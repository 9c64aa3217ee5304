"""Bad input, item by item, through the command line: one sentence, the right exit code, nothing lost."""

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support.agents.controlled_run import nothing_left
from support.cli.command import Command, wait_until_gone
from support.values.histories import controller_journal, ended, event, finished, running_run
from support.values.made_runs import IDS, line, make_run
from torchdeck.cli.main import main
from torchdeck.contract.checkpoints.verification import verify

RUN_FILE = """\
[run]
recipe = "byte-gpt"

[model]
layers = 1
heads = 1
width = 16
context = 16

[data]
source = "text.txt"
heldout = 0.0

[training]
steps = 2
microbatch = 2

[distributed]
devices = "cpu"
nproc = 1

[limits]
min_free_disk = "1MiB"
memory = "off"
"""


class Refusal(NamedTuple):
    """What is refused: words of the command line, exit code, and what the sentence says."""

    arguments: tuple[str, ...]
    code: int
    says: tuple[str, ...]


def changed(*overrides: str) -> tuple[str, ...]:
    return ("run.toml", *(word for override in overrides for word in ("--set", override)))


REFUSALS = {
    "missing script": Refusal(("--script", "none.py"), 3, ("none.py does not exist", "correct run.script")),
    "missing module": Refusal(("--module", "no_such"), 3, ("no module no_such", "run.module")),
    "missing run file": Refusal(("none.toml",), 2, ("there is no such file", "torchdeck init")),
    "no interpreter": Refusal(
        changed("run.interpreter=/none/python"), 3, ("no such file", "correct run.interpreter")
    ),
    "interpreter without torch": Refusal(
        ("--trust", "--script", "train.py", "--set", "run.interpreter=bare/bin/python"),
        3,
        ("there is no torch in", "-m pip install torch"),
    ),
    "more ranks than devices asked for": Refusal(
        changed("distributed.devices=[0,1]", "distributed.nproc=3"),
        2,
        ("3 ranks do not fit on 2 devices", "expected: at most 2"),
    ),
    "devices that are not there": Refusal(
        changed("distributed.devices=[4097]"), 3, ("distributed.devices[0]", "expected: ")
    ),
    "full disk": Refusal(changed("limits.min_free_disk='900TiB'"), 3, ("free at", "make room")),
    "unwritable checkpoint folder": Refusal(
        changed("checkpoint.directory=/proc/torchdeck"), 3, ("/proc/torchdeck", "change checkpoint.directory")
    ),
    "file in the place of the checkpoint folder": Refusal(
        changed("checkpoint.directory=text.txt"), 3, ("text.txt is not a folder", "checkpoint.directory")
    ),
    "port out of range": Refusal(
        changed("distributed.rendezvous.port=70000"), 2, ("70000 is out of range", "from 1 to 65535")
    ),
    "empty data": Refusal(changed("data.source=empty.txt"), 3, ("holds no text", "name a file or folder")),
    "data shorter than a sequence": Refusal(
        changed("model.context=4096"), 3, ("too few for samples of 4096 bytes", "lower model.context")
    ),
    "no such checkpoint": Refusal(
        changed("checkpoint.resume=none"), 3, ("none does not exist", "correct checkpoint.resume")
    ),
    "recipe not trusted": Refusal(
        changed("run.recipe=mine.py", "model={}", "data={}"), 3, ("not trusted yet", "--trust")
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a right run file, and things that are wrong beside it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(RUN_FILE)
    (tmp_path / "text.txt").write_text("A line of text.\n" * 64)
    (tmp_path / "empty.txt").touch()
    (tmp_path / "train.py").touch()
    (tmp_path / "mine.py").write_text("raise SystemExit('it ran')\n")
    return tmp_path


@pytest.mark.parametrize("name", REFUSALS)
def test_refused_with_one_sentence_before_anything_starts(
    name: str, folder: Path, torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 or 3, one sentence with what to do, no traceback, no run, nothing written."""
    if name == "interpreter without torch":
        make = [sys.executable, "-m", "venv", "--without-pip", "bare"]
        subprocess.run(make, cwd=folder, check=True, timeout=60)
    refusal = REFUSALS[name]
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert main(["--no-gui", *refusal.arguments]) == refusal.code
    said = capsys.readouterr()
    assert all(words in said.err for words in refusal.says), said.err
    beside = ("    expected: ", "help: torchdeck docs ")
    sentences = [row for row in said.err.splitlines() if not row.startswith(beside)]
    assert len(sentences) == 1, said.err
    assert "Traceback" not in said.out + said.err
    assert not (torchdeck_home / "runs").exists()
    now = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if "__pycache__" not in path.parts}
    assert {path for path in now if torchdeck_home not in (path, *path.parents)} <= before.keys()


def test_port_in_use_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A fixed port that someone has: exit code 3, and the way out."""
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["--no-gui", *changed(f"distributed.rendezvous.port={port}")]) == 3
    assert f'port {port} is in use: give distributed.rendezvous.port another, or "auto"' in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("place", ["/proc/torchdeck", "text.txt"])
def test_home_that_cannot_be_is_refused(
    place: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unwritable TORCHDECK_HOME, or a file in its place: exit code 3, one sentence."""
    monkeypatch.setenv("TORCHDECK_HOME", str(folder / place))
    assert main(["--no-gui", "run.toml"]) == 3
    said = capsys.readouterr().err
    sentence, page = said.splitlines()
    assert page == "help: torchdeck docs index#where-runs-are-stored"
    assert "set TORCHDECK_HOME to a folder" in sentence


@pytest.mark.parametrize(
    "words",
    [
        ["runs", "show"],
        ["runs", "logs"],
        ["runs", "metrics"],
        ["runs", "attach"],
        ["runs", "stop"],
        ["runs", "resume"],
        ["runs", "delete"],
        ["ckpt", "list"],
        ["ckpt", "verify"],
    ],
)
@pytest.mark.parametrize("asked", ["nothing", "../" + IDS[0], ""])
def test_run_id_that_does_not_exist(
    words: list[str], asked: str, torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command on runs: exit code 2, and the command that lists those there are."""
    run = make_run(torchdeck_home, controller_journal(), [*running_run(), ended(), finished()])
    assert main([*words, asked]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert f"there is no run {asked!r}" in said.err
    assert "torchdeck runs list" in said.err
    assert run.journal.exists()


def test_torn_journal_loses_nothing_else(torchdeck_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Cut in its last line, and with a line of noise in its middle: shown, said, and left as it is."""
    run = make_run(torchdeck_home, controller_journal(), [*running_run(), ended(), finished()])
    journal = run.node("localhost").journal
    rows = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join([*rows[:2], '{"v": 1, "t\n', *rows[2:], rows[-1][:20]]))
    before = journal.read_bytes()
    assert main(["runs", "show", "latest"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("SUCCEEDED")
    assert "torn" in shown
    assert main(["runs", "attach", "latest"]) == 0
    assert journal.read_bytes() == before


def test_journal_without_its_first_line_is_still_shown(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What only that line knew is left out, not shown as None."""
    run = make_run(torchdeck_home, controller_journal(), [*running_run(), ended(), finished()])
    run.journal.write_bytes(b"\x00\xff not a journal\n")
    assert main(["runs", "show", IDS[0]]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("SUCCEEDED")
    assert "None" not in shown
    assert "torn" in shown


@pytest.mark.parametrize("command", ["show", "logs", "metrics", "attach", "stop", "resume", "delete"])
def test_run_of_a_newer_version_is_left_alone(
    command: str, torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, told to update; the run stays as it is, and the list shows the others."""
    run = make_run(torchdeck_home, [])
    run.journal.write_text(line(event("created"), version=99))
    assert main(["runs", command, IDS[0]]) == 2
    said = capsys.readouterr().err
    assert "newer Torchdeck" in said
    assert "Traceback" not in said
    assert run.journal.read_text() == line(event("created"), version=99)
    make_run(torchdeck_home, controller_journal(), [*running_run(), ended(), finished()], run_id=IDS[1])
    assert main(["runs", "list"]) == 0
    listed = capsys.readouterr().out
    assert "UNREADABLE" in listed
    assert "SUCCEEDED" in listed


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    """`torchdeck` with a home whose runs leave nothing behind."""
    with nothing_left(tmp_path / "home"):
        yield Command(tmp_path / "home")


@pytest.mark.soak
def test_checkpoint_of_another_model_is_refused_in_one_sentence(folder: Path, command: Command) -> None:
    """The ranks say which tensor differs and what to do; exit code 1, no traceback, the checkpoint kept."""
    first = command.run("--no-gui", folder / "run.toml")
    assert first.returncode == 0, first.stdout + first.stderr
    (run,) = command.runs()
    wait_until_gone(run)
    kept = folder / "kept"
    shutil.copytree(run.checkpoints / "final", kept)
    other = ("--set", "model.width=8", "--set", f"checkpoint.resume={kept}")
    second = command.run("--no-gui", folder / "run.toml", *other)
    said = second.stdout + second.stderr
    assert second.returncode == 1, said
    summary = second.stdout[second.stdout.index("FAILED") :]
    (sentence,) = [row for row in summary.splitlines() if "another model" in row]
    assert "is (256, 16) in the checkpoint and (256, 8) in this run's model" in sentence
    assert "resume with the model it was saved from" in sentence
    assert "Traceback" not in said
    assert verify(kept) == []
    unshown = command.json("runs", "show", "latest")["first_failure"]
    assert unshown["traceback"] == ""


LATE_RECIPE = """\
import os
import time

import torch

if os.environ["RANK"] == "1":
    time.sleep(60)


def build_model(options):
    return torch.nn.Linear(2, 1)


def build_data(options, split):
    return torch.utils.data.TensorDataset(torch.ones(8, 2))


def loss(model, batch):
    return model(batch[0]).mean()
"""


@pytest.mark.soak  # of ranks without a launcher: tests/distributed/group/test_processes.py
def test_a_rank_that_never_comes_is_named_after_the_timeout(tmp_path: Path, command: Command) -> None:
    """After distributed.timeout and not after torch's half hour; `runs show` says what that may be."""
    (tmp_path / "late.py").write_text(LATE_RECIPE)
    (tmp_path / "run.toml").write_text(
        '[run]\nrecipe = "late.py"\n[training]\nsteps = 2\nmicrobatch = 2\n[limits]\nmemory = "off"\n'
        '[distributed]\nnproc = 2\ndevices = "cpu"\ntimeout = 3\n'
    )
    done = command.run("--no-gui", "--trust", tmp_path / "run.toml", timeout=50)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "rank 1 of 2 did not come to" in done.stdout
    assert "within 3 s" in done.stdout
    assert "Timeout while waiting for peers" in command.run("runs", "show", "latest").stdout
