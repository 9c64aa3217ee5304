"""`torchdeck plan`: what is planned, and in which form it is said."""

import argparse
import json
from pathlib import Path

import pytest

from torchdeck.cli.plan import plan_command
from torchdeck.contract.plan.launch_plan import LaunchPlan

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
    plan_command.add_parser(parser.add_subparsers())
    args = parser.parse_args(["plan", *words])
    return int(args.handler(args))


def untraced(*words: str) -> int:
    """The command without building the model, which takes seconds."""
    return command(words[0], "--no-trace", *words[1:])


@pytest.fixture
def run_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run.toml"
    path.write_text(RUN)
    return path


def test_the_preview_is_shown_to_people(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Placement, arithmetic, fingerprint, and where the rest is."""
    assert untraced(str(run_file)) == 0
    shown = capsys.readouterr()
    for words in (
        "2 ranks on localhost, ddp over gloo",
        "  localhost   0  1  CPU",
        "global batch 16 × 4 × 2 = 128 samples",
        "lr 0.0003 × √2 = 0.000424264",
        "fingerprint ",
        "--commands",
    ):
        assert words in shown.out, words
    assert shown.err == ""


def test_a_missing_uv_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is to make the environment; a start and a check refuse it, too."""
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"\nversion = "1"\ndependencies = []\n')
    (tmp_path / "train.py").touch()
    (tmp_path / "run.toml").write_text('[run]\nscript = "train.py"\nenvironment = "uv"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torchdeck.agent.environments.make.find_uv", lambda: None)
    assert untraced("run.toml") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "uv is not installed on localhost, and cannot make the environment: install uv there" in shown


def test_what_nodes_execute_is_shown(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Argv, environment, slots, the whole fingerprint."""
    assert untraced(str(run_file), "--commands") == 0
    shown = capsys.readouterr().out
    for words in (
        "2 ranks on localhost (cpu), ddp over gloo",
        "'@{shipped}/torchdeck/distributed/torchrun.py' --nnodes 1 --nproc-per-node 2",
        "-u -m torchdeck.distributed.entry",
        "TORCHDECK_RUN_ID=@{run_id}",
        "characters)",
        "@{port}  free port",
        "fingerprint ",
    ):
        assert words in shown, words


def test_json_is_the_whole_plan(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is printed is what plan_command.json will hold, and the preview beside it; overrides count."""
    assert untraced(str(run_file), "--json", "--set", "training.microbatch=4") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["preview"]["placement"]["world_size"] == 2
    made = LaunchPlan.from_json(printed)
    assert made.batch is not None
    assert made.batch.global_batch == 32
    assert made.name == "run"


def test_any_script_can_be_planned(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What follows -- is the script's, unchanged: further dashes, empty words and all."""
    words = ["--lr", "0.1", "--", "--json", "", "-h"]
    (run_file.parent / "train.py").touch()
    assert command("--script", "train.py", "--nproc", "3", "--json", "--", *words) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["nodes"][0]["command"][2:] == ["@{code}/train.py", *words]
    assert (made["world_size"], made["kind"], made["name"]) == (3, "script", "train")


def test_the_files_that_go_are_listed(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each with its size, links with their targets; what holds credentials as left out, with the reason."""
    folder = run_file.parent
    (folder / "train.py").write_text("print(1)\n")
    (folder / "a\nb").touch()
    (folder / "go.sh").touch(mode=0o755)
    (folder / ".env").write_text("TOKEN=1")
    (folder / "conf.yaml").write_text("a: 1\nclient_secret: kT4vQ9xZ2mB7" + "nW5rL8pJ3sD6\n")
    (folder / "tls.key").touch()
    (folder / ".torchdeckignore").write_text("!tls.key\n")
    (folder / "link").symlink_to("train.py")
    assert command("--script", "train.py", "--nproc", "1", "--files") == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == f"each run executes its own copy of {folder}: 7 files of yours, {18 + len(RUN)} B"
    listed = [" ".join(line.split()) for line in rest]
    assert listed == [
        "9 B .torchdeckignore",
        "0 B 'a\\nb'",
        "0 B go.sh (executable)",
        "link -> train.py",
        f"{len(RUN)} B run.toml",
        "0 B tls.key (.torchdeckignore names it)",
        "9 B train.py",
        "left out (.torchdeckignore includes a file with !NAME):",
        ".env: its name is typical of credentials",
        "conf.yaml: holds a password or token (line 2)",
    ]


def test_one_rank_is_shown(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where it is, for people and as JSON; one that is not there is said."""
    assert untraced(str(run_file), "--rank", "1") == 0
    assert "rank 1: cpu of localhost (node 0, local rank 1)" in capsys.readouterr().out
    assert untraced(str(run_file), "--rank", "1", "--json") == 0
    assert json.loads(capsys.readouterr().out)["placement"]["local_rank"] == 1
    assert untraced(str(run_file), "--rank", "2") == 2
    assert "there is no rank 2: ranks go from 0 to 1" in capsys.readouterr().err


def test_a_picture_is_written(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whole, and its path is said; a folder that is not there is said too."""
    picture = run_file.parent / "plan.svg"
    assert untraced(str(run_file), "--svg", str(picture)) == 0
    assert capsys.readouterr().out == f"{picture}\n"
    assert picture.read_text().startswith("<svg ")
    for nowhere in (str(run_file.parent / "no/plan.svg"), str(run_file.parent), ""):
        assert untraced(str(run_file), "--svg", nowhere) == 2
        assert "cannot be written" in capsys.readouterr().err


def test_a_strategy_that_is_none_is_said(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With those there are; and without a trace there is nothing to compare."""
    assert untraced(str(run_file), "--compare", "ddp,dpp") == 2
    assert "there is no strategy 'dpp'; expected one of single, ddp" in capsys.readouterr().err
    assert untraced(str(run_file), "--compare", "ddp") == 2
    assert "nothing to compare" in capsys.readouterr().err


def test_a_script_that_is_not_there_is_said(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At the top, and by the exit code; the plan shows all the same. Nothing is said of one that is there."""
    assert command("--script", "nowhere.py") == 3
    said = "".join(capsys.readouterr().out.split())  # a path may be broken anywhere, as long as it is
    assert said.count(f"✕script{run_file.parent / 'nowhere.py'}doesnotexisthere") == 1
    assert "Placement" in said
    (run_file.parent / "there.py").touch()
    assert command("--script", "there.py") == 0
    assert "does not exist" not in capsys.readouterr().out


def test_a_recipe_that_is_not_there_is_said(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a script is; `--json` has it in headline and notes."""
    run_file.write_text('[run]\nrecipe = "nowhere.py"\n[training]\nsteps = 1\n')
    assert command(str(run_file), "--json") == 3
    preview = json.loads(capsys.readouterr().out)["preview"]
    sentence = f"recipe {run_file.parent / 'nowhere.py'} does not exist here"
    assert preview["headline"].endswith(sentence)
    assert preview["notes"] == [sentence]


def test_a_job_script_is_exported(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One for the whole run: printed, or in the file that is named; a folder is no file."""
    assert command(str(run_file), "--export", "sbatch") == 0
    printed = capsys.readouterr().out
    assert "\n#SBATCH --nodes=1\n" in printed
    out = run_file.parent / "job.sbatch"
    assert command(str(run_file), "--export", "sbatch", "--out", str(out)) == 0
    assert out.read_text() == printed
    assert command(str(run_file), "--export", "sbatch", "--out", str(run_file.parent)) == 2
    assert "name another file" in capsys.readouterr().err


def test_scripts_are_exported(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To a folder, one for each node, executable; or to standard output."""
    out = run_file.parent / "deep/out"
    assert command(str(run_file), "--export", "sh", "--out", str(out)) == 0
    script = out / "localhost.sh"
    assert capsys.readouterr().out == f"{script}\n"
    assert script.read_text().startswith("#!/bin/sh\n")
    assert script.stat().st_mode & 0o100
    assert command(str(run_file), "--export", "sh") == 0
    assert capsys.readouterr().out.startswith("#!/bin/sh\n")


def test_a_folder_that_cannot_be_written_is_said(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence, exit 2."""
    assert command(str(run_file), "--export", "sh", "--out", str(run_file / "x")) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_problems_have_file_and_line(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A bad config is exit 2, all of it said, with the right spelling."""
    run_file.write_text(RUN.replace("microbatch", "microbach").replace('"sqrt"', '"square"'))
    assert command(str(run_file)) == 2
    said = capsys.readouterr().err
    assert "run.toml:5: training.microbach" in said
    assert "run.toml:8: training.scaling" in said
    assert "expected: training.microbatch" in said


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
    assert untraced(str(run_file)) == 3
    said = capsys.readouterr().err
    assert "run.toml:11: distributed.devices[0]: localhost has no GPU 98" in said
    assert "distributed.devices[1]" in said


def test_a_batch_plan_that_is_not_there_is_a_problem(
    run_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At its key and line, before anything is traced."""
    text = RUN.replace("steps = 1000\nmicrobatch = 16\n", 'steps = 1000\nbatch_plan = "absent"\n')
    run_file.write_text(text)
    assert untraced(str(run_file)) == 3
    assert "run.toml:5: training.batch_plan: there is no batch plan in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to run is given"),
        (["run.toml", "--script", "x.py"], "both given"),
        (["run.toml", "--", "x"], "belong in it"),
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
    assert "expected: " in err
