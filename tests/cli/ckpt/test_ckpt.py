"""`torchdeck ckpt list` and `verify`."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.ranks.recipe_ranks import recipe_settings
from support.values import machines
from support.values.checkpoint_files import flip, save
from support.values.histories import controller_journal, ended, event, finished, running_run
from support.values.made_runs import IDS, line, make_run
from torchdeck.cli.ckpt import ckpt_command


def _run(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    ckpt_command.add_parser(parser.add_subparsers())
    args = parser.parse_args(["ckpt", *argv])
    code: int = args.handler(args)
    return code


def test_list_shows_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line a checkpoint, with its step and size; what is not complete says why."""
    save(tmp_path, 10)
    save(tmp_path, 20, name="final")
    (tmp_path / ".tmp-step_00000030-1").mkdir()
    assert _run("list", str(tmp_path)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["step_00000010", "final", ".tmp-step_00000030-1"]
    assert "step 10, single on 1 rank" in lines[0]
    assert "not complete: left over from a save" in lines[2]


def test_list_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An array of objects with step, path, whether complete, and size."""
    folder = save(tmp_path, 10)
    assert _run("list", str(tmp_path), "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["step"], row["name"], row["path"]) == (10, "step_00000010", str(folder))
    assert (row["complete"], row["why"], row["world_size"]) == (True, "", 1)
    assert row["size"] > 0


def test_list_shows_metrics_the_best_and_why_each_is_kept(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Metrics are the manifest's; what stays, and which is best, follows from the run's own rule."""
    run = torchdeck_home / "runs" / "20261121T034455Z-quick-0a1b2c"
    run.mkdir(parents=True)
    torchdeck_home.chmod(0o700)
    settings = recipe_settings(run)
    settings["checkpoint"] |= {"keep_last": 1, "keep_every": 2, "keep_best": 1}
    env = {"TORCHDECK_RECIPE": json.dumps(settings)}
    plan = {"version": 1, "checkpoint": {"directory": "@{run_dir}/kept"}, "nodes": [{"env": env}]}
    (run / "plan.json").write_text(json.dumps(plan))
    (run / "journal.jsonl").touch()
    for step, loss in ((1, 0.25), (2, 0.5), (3, 0.75), (4, 0.5)):
        save(run / "kept", step, metrics={"validation_loss": loss})
    save(run / "kept", 4, name="final")
    assert _run("list", run.name, "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["metrics"].get("validation_loss") for row in rows] == [0.25, 0.5, 0.75, 0.5, None]
    assert [row["best"] for row in rows] == [True, False, False, False, False]
    assert [row["kept"] for row in rows] == [
        ["lowest validation_loss"],
        ["every 2 steps"],
        [],
        ["newest 1", "every 2 steps"],
        ["final"],
    ]
    assert _run("list", run.name) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.endswith("validation_loss 0.25 (best); kept: lowest validation_loss")
    assert "kept" not in last


def test_list_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run without checkpoints has an empty list, in words and as JSON."""
    assert _run("list", str(tmp_path)) == 0
    assert capsys.readouterr().out == "no checkpoints yet\n"
    assert _run("list", str(tmp_path), "--json") == 0
    assert json.loads(capsys.readouterr().out) == []


def test_verify_says_sound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The newest is hashed unless a step is named, and a sound one exits with 0."""
    save(tmp_path, 10)
    save(tmp_path, 20)
    assert _run("verify", str(tmp_path)) == 0
    assert capsys.readouterr().out == "step_00000020: sound\n"
    assert _run("verify", str(tmp_path), "10") == 0
    assert capsys.readouterr().out == "step_00000010: sound\n"
    assert _run("verify", str(tmp_path / "step_00000010")) == 0


def test_verify_counts_the_files_that_have_no_checksum(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a script saved by torch.distributed.checkpoint is not called sound: garbage looks the same."""
    folder = tmp_path / "step-10"
    folder.mkdir()
    (folder / "__0_0.distcp").write_bytes(b"garbage")
    (folder / ".metadata").write_bytes(b"never read")
    assert _run("verify", str(tmp_path)) == 0
    assert capsys.readouterr().out == (
        "step-10: nothing damaged was found, but 2 files have no checksum, and only their presence and size "
        "were checked\n"
    )
    assert _run("verify", str(tmp_path), "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["sound"], row["problems"], row["unchecked"]) == (None, [], 2)


def test_verify_names_the_damaged_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Damage exits with 1 and names the file; --all hashes every checkpoint, but not what a save left."""
    flip(save(tmp_path, 10) / "trainer.json", 1)
    save(tmp_path, 20)
    (tmp_path / ".tmp-step_00000030-1").mkdir()
    assert _run("verify", str(tmp_path), "--all") == 1
    lines = capsys.readouterr().out.splitlines()
    assert [lines[0], lines[-1]] == ["step_00000010: damaged", "step_00000020: sound"]
    assert "trainer.json is damaged: SHA-256" in lines[1]
    assert _run("verify", str(tmp_path), "--all", "--json") == 1
    damaged, sound = json.loads(capsys.readouterr().out)
    assert (damaged["sound"], sound["sound"], sound["problems"]) == (False, True, [])
    assert "trainer.json" in damaged["problems"][0]


def test_a_checkpoint_under_any_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that was converted or moved is listed and verified by its folder, whatever that is called."""
    folder = save(tmp_path, 10).rename(tmp_path / "mine")
    assert _run("list", str(folder)) == 0
    assert "step 10, single on 1 rank" in capsys.readouterr().out
    assert _run("verify", str(folder)) == 0
    (folder / "trainer.json").unlink()
    assert _run("list", str(folder)) == 0
    assert "not complete: trainer.json is missing" in capsys.readouterr().out
    (folder / "manifest.json").write_text("{")
    assert _run("verify", str(folder)) == 1
    assert "mine: damaged" in capsys.readouterr().out


def test_a_checkpoint_without_manifest_is_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder named like a checkpoint that lost its manifest does not pass."""
    (save(tmp_path, 10) / "manifest.json").unlink()
    assert _run("verify", str(tmp_path)) == 1
    assert "holds no manifest.json" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["30"], "there is no checkpoint step_00000030; there are: step_00000010"),
        (["final"], "there is no checkpoint final"),
        (["10", "--all"], "give STEP or --all, not both"),
    ],
)
def test_usage_errors_exit_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """What was asked for and is not there is said, with what is."""
    save(tmp_path, 10)
    assert _run("verify", str(tmp_path), *arguments) == 2
    assert said in capsys.readouterr().err


def test_an_unknown_run_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    """An id that is no run's is refused in one line."""
    assert _run("list", "no-such-run") == 2
    error = capsys.readouterr().err
    assert error.startswith("torchdeck ckpt list: ")
    assert "no-such-run" in error
    assert error.count("\n") == 1


def test_a_run_is_found_by_its_id(torchdeck_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run's plan says where its checkpoints lie; the directory itself may be named too."""
    run = torchdeck_home / "runs" / "20261121T034455Z-quick-0a1b2c"
    run.mkdir(parents=True)
    torchdeck_home.chmod(0o700)
    (run / "plan.json").write_text(json.dumps({"version": 1, "checkpoint": {"directory": "@{run_dir}/kept"}}))
    (run / "journal.jsonl").touch()
    save(run / "kept", 10)
    for asked in (run.name, str(run)):
        assert _run("verify", asked) == 0
        assert capsys.readouterr().out == "step_00000010: sound\n"


def test_a_plan_that_says_nothing_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run directory whose plan is torn asks for the checkpoints' folder instead."""
    (tmp_path / "plan.json").write_text("{")
    assert _run("list", str(tmp_path)) == 2
    assert "does not tell where the run's checkpoints are" in capsys.readouterr().err


@pytest.mark.processes
def test_torch_is_not_imported(tmp_path: Path) -> None:
    """Verifying takes the standard library: a laptop without torch can do it."""
    save(tmp_path, 10)
    code = (
        "import argparse, sys; from torchdeck.cli.ckpt import ckpt_command as ckpt; "
        "p = argparse.ArgumentParser()\n"
        "ckpt.add_parser(p.add_subparsers()); a = p.parse_args(['ckpt', 'verify', sys.argv[1]])\n"
        "print(a.handler(a), sorted({'torch', 'numpy'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert printed.stdout.splitlines() == ["step_00000010: sound", "0 []"]


def test_a_checkpoint_on_a_node_is_seen_as_runs_show_sees_it(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is listed with its node; what needs its files asks the node for them."""
    config = machines.config(distributed={"nodes": ["gpu3"]}, checkpoint={"directory": "/scratch/saved"})
    plan = machines.plan(config, machines.node("gpu3")).document()
    run = make_run(torchdeck_home, controller_journal(), plan=plan)
    saved = event("checkpoint", step=20, path="/scratch/saved/step_00000020", size=5, seconds=0.5)
    node = run.node("gpu3")
    node.root.mkdir()
    node.journal.write_text("".join(map(line, [*running_run(), saved, ended(), finished()])))
    assert _run("list", IDS[0]) == 0
    assert "step_00000020 is on node gpu3 (/scratch/saved/step_00000020)" in capsys.readouterr().out
    assert _run("list", IDS[0], "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["step"], row["node"], row["path"]) == (20, "gpu3", "/scratch/saved/step_00000020")
    for command, code in (
        (["verify", IDS[0]], 3),
        (["verify", IDS[0], "20"], 3),
        (["export", IDS[0], "-o", "out"], 1),
    ):
        assert _run(*command) == code
        assert "node gpu3 is not in the node" in capsys.readouterr().err
    save(run.checkpoints, 20)  # as it is pulled
    assert _run("verify", IDS[0]) == 0
    assert "step_00000020: sound" in capsys.readouterr().out
