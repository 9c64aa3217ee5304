"""`torchdeck plan`."""

import argparse
import json
from pathlib import Path

import pytest

from torchdeck.cli import plan
from torchdeck.plan.launch_plan import LaunchPlan

RUN = """\
[run]
recipe = "byte-gpt"
[training]
steps = 1000
microbatch = 16
accumulation = 4
lr = 3e-4
scaling = "sqrt"
[distributed]
nproc = 2
devices = "cpu"
"""


def command(*words: str) -> int:
    """The command, as the command line would call it."""
    parser = argparse.ArgumentParser()
    plan.add_parser(parser.add_subparsers())
    args = parser.parse_args(["plan", *words])
    return int(args.handler(args))


@pytest.fixture
def run_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run.toml"
    path.write_text(RUN)
    return path


def test_the_plan_is_shown_to_people(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Placement, arithmetic, argv, environment, slots, fingerprint."""
    assert command(str(run_file)) == 0
    shown = capsys.readouterr().out
    for words in (
        "2 ranks on localhost (cpu), ddp over gloo",
        "global batch 16 × 4 × 2 = 128 samples",
        "lr 0.0003 × √2 = 0.000424264",
        "-m torch.distributed.run --nnodes 1 --nproc-per-node 2",
        "-u -m torchdeck.distributed.entry",
        "TORCHDECK_RUN_ID=@{run_id}",
        "characters)",
        "@{port}  free port",
        "fingerprint ",
    ):
        assert words in shown, words


def test_json_is_the_whole_plan(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is printed is what plan.json will hold; overrides count."""
    assert command(str(run_file), "--json", "--set", "training.microbatch=4") == 0
    made = LaunchPlan.from_json(json.loads(capsys.readouterr().out))
    assert made.batch is not None
    assert made.batch.global_batch == 32
    assert made.name == "run"


def test_any_script_can_be_planned(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What follows -- is the script's, unchanged: further dashes, empty words and all."""
    words = ["--lr", "0.1", "--", "--json", "", "-h"]
    assert command("--script", "train.py", "--nproc", "3", "--json", "--", *words) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["nodes"][0]["command"][2:] == [str(run_file.parent / "train.py"), *words]
    assert (made["world_size"], made["kind"], made["name"]) == (3, "script", "train")


def test_scripts_are_exported(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To a folder, one for each node, executable; or to standard output."""
    out = run_file.parent / "deep/out"
    assert command(str(run_file), "--export", "sh", "--out", str(out)) == 0
    script = out / "localhost.sh"
    assert capsys.readouterr().out == f"{script}\n"
    assert script.read_text().startswith("#!/bin/sh\n")
    assert script.stat().st_mode & 0o100
    assert command(str(run_file), "--export", "bat") == 0
    assert capsys.readouterr().out.startswith("@echo off")


def test_a_folder_that_cannot_be_written_is_said(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence, exit 2."""
    assert command(str(run_file), "--export", "sh", "--out", str(run_file / "x")) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_what_a_batch_file_cannot_say_is_said(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line break in an argument: exit 2 and the way out."""
    assert command("--script", "train.py", "--export", "bat", "--", "a\nb") == 2
    assert "--export sh" in capsys.readouterr().err


def test_problems_have_file_and_line(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A bad config is exit 2, all of it said, with the right spelling."""
    run_file.write_text(RUN.replace("microbatch", "microbach").replace('"sqrt"', '"square"'))
    assert command(str(run_file)) == 2
    said = capsys.readouterr().err
    assert "run.toml:5: training.microbach" in said
    assert "run.toml:8: training.scaling" in said
    assert "right: training.microbatch" in said


def test_problems_as_json(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program reads them from standard output."""
    assert command(str(run_file), "--json", "--set", "training.stepps=3") == 2
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert (problem["path"], problem["file"]) == ("training.stepps", "--set")


def test_a_config_that_does_not_fit_the_machine_is_refused(
    run_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The config is right and the machine is not: exit 3, with the line that asks for too much."""
    run_file.write_text(RUN.replace('devices = "cpu"', "devices = [98, 99]"))
    assert command(str(run_file)) == 3
    said = capsys.readouterr().err
    assert "run.toml:11: distributed.devices[0]: localhost has no GPU 98" in said
    assert "distributed.devices[1]" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "not said what to run"),
        (["run.toml", "--script", "x.py"], "both given"),
        (["run.toml", "--", "x"], "stand in it"),
        (["absent.toml"], "no such file"),
        (["--script", "x.py", "--", "\udcff"], "not UTF-8"),
    ],
)
def test_a_bad_command_line_is_said(
    run_file: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    """Exit 2 and what would be right."""
    assert command(*words) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "right: " in err
