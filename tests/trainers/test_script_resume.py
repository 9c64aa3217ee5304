"""Scripts continue from their own checkpoints: after a failure, and by `runs resume`; never by a guess."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

import torchdeck
from support.cli.command import Command, agent_events
from torchdeck.contract.refusal import Refusal

pytestmark = pytest.mark.processes

COUNTS = """
    import argparse, json, os, time, zipfile

    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", default="scratch")
    parser.add_argument("--steps", type=int, default=6)
    args = parser.parse_args()
    done = 0
    if args.mode == "again":
        with zipfile.ZipFile("out/ckpt.pt") as archive:
            done = int(archive.read("step"))
    os.makedirs("out", exist_ok=True)
    for step in range(done + 1, args.steps + 1):
        print(f"iter {step}: loss {1 / step:.4f}", flush=True)
        with open("trained.txt", "a") as file:
            file.write(f"{step}\\n")
        if step % 2 == 0:
            with zipfile.ZipFile("out/ckpt.new", "w") as archive:
                archive.writestr("step", str(step))
                archive.writestr("weights", bytes(20000))
            os.replace("out/ckpt.new", "out/ckpt.pt")
            time.sleep(1.5)
        if step == 3 and not os.path.exists("failed"):
            open("failed", "w").close()
            raise RuntimeError("a failure at step 3")
    """


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(textwrap.dedent(COUNTS))
    return folder


def run_file(project: Path, *lines: str, launch: str = "") -> Path:
    path = project / "run.toml"
    own = "\n".join(lines)
    run = f'name = "counts"\n[run]\nscript = "train.py"\n{own}\n'
    path.write_text(f"{run}[distributed]\nnproc = 1\n[launch]\n{launch}\n")
    return path


def trained(project: Path) -> list[int]:
    return [int(line) for line in (project / "trained.txt").read_text().split()]


def test_a_restart_continues_with_the_arguments_that_the_run_file_gives(
    project: Path, torchdeck_home: Path
) -> None:
    """Step 3 is done again, as it was not in the checkpoint; steps 1 and 2 are not."""
    command = Command(torchdeck_home)
    path = run_file(project, 'resume_args = ["--mode=again"]', launch="max_restarts = 1")
    done = command.run("--no-gui", path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert trained(project) == [1, 2, 3, 3, 4, 5, 6]
    second = agent_events(command.the_run(), "attempt_started")[1]
    assert (second.fields["resume"], second.fields["resume_step"]) == (str(project / "out/ckpt.pt"), 2)


def test_where_nothing_is_known_the_start_warns_and_the_restart_says_why(
    project: Path, torchdeck_home: Path
) -> None:
    command = Command(torchdeck_home)
    done = command.run("--no-gui", run_file(project, launch="max_restarts = 1"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "after a failure it would begin from scratch" in done.stderr
    assert trained(project) == [1, 2, 3, 1, 2, 3, 4, 5, 6]
    second = agent_events(command.the_run(), "attempt_started")[1]
    assert "it is unknown how the script continues from ckpt.pt" in second.fields["from_scratch"]


def test_resume_asks_for_arguments_once_and_uses_them(project: Path, torchdeck_home: Path) -> None:
    """Without them it names the way; what was saved is listed, and sound."""
    command = Command(torchdeck_home)
    assert command.run("--no-gui", run_file(project)).returncode == 1
    run = command.the_run().root.name
    refused = command.run("runs", "resume", run)
    assert refused.returncode == 3
    assert "-- ARGS" in refused.stderr
    listed = command.json("ckpt", "list", run)
    assert [(row["name"], row["step"], row["about"], row["kind"]) for row in listed] == [
        ("ckpt.pt", 2, True, "nanogpt")
    ]
    verified = command.run("ckpt", "verify", run)
    assert (verified.returncode, verified.stdout) == (0, "ckpt.pt: sound\n")
    resumed = command.run("runs", "resume", run, "--", "--mode=again")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "iter 4: loss" in resumed.stdout
    assert "iter 2: loss" not in resumed.stdout, "of the attempt before"
    assert "a failure at step 3" not in resumed.stderr
    assert trained(project) == [1, 2, 3, 3, 4, 5, 6]


def test_a_clone_starts_with_further_arguments(project: Path, torchdeck_home: Path) -> None:
    command = Command(torchdeck_home)
    (project / "failed").touch()
    assert command.run("--no-gui", run_file(project, 'args = ["--steps=2"]')).returncode == 0
    first = command.the_run().root.name
    done = command.run(
        "runs", "clone", first, "--set", 'name="again"', "--detach", "--json", "--", "--steps=3"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    run = json.loads(done.stdout)["id"]
    assert command.run("runs", "attach", run).returncode == 0
    assert trained(project) == [1, 2, 1, 2, 3]
    assert "again" in run


def test_a_run_is_resumed_and_cloned_in_python(project: Path, torchdeck_home: Path) -> None:
    """With arguments, as in the terminal; what is not known is an error with the way."""
    first = torchdeck.launch(run_file(project), trust=True, home=torchdeck_home)
    assert first.wait(120).state == "FAILED"
    with pytest.raises(Refusal, match=r"how .*train\.py continues from its checkpoint is not known"):
        torchdeck.resume(first.id, home=torchdeck_home)
    resumed = torchdeck.resume(first.id, arguments=["--mode=again"], home=torchdeck_home)
    assert resumed.id == first.id
    assert resumed.wait(120).state == "SUCCEEDED"
    assert trained(project) == [1, 2, 3, 3, 4, 5, 6]
    cloned = torchdeck.clone(
        first.id, overrides=['name="again"'], arguments=["--steps=1"], home=torchdeck_home
    )
    assert cloned.wait(120).name == "again"
    assert trained(project)[7:] == [1]


def test_a_checkpoint_that_no_agent_noticed_is_named(project: Path, torchdeck_home: Path) -> None:
    """As after a power failure right after its save: no one says that there is none; a clone continues."""
    command = Command(torchdeck_home)
    assert command.run("--no-gui", run_file(project)).returncode == 1
    layout = command.the_run()
    journal = layout.node("localhost").journal
    lines = [line for line in journal.read_text().splitlines() if '"event": "checkpoint"' not in line]
    assert '"event": "finished"' in lines[-1]
    lines[-1] = json.dumps({**json.loads(lines[-1]), "resumable": False, "checkpoint": ""})
    journal.write_text("\n".join(lines) + "\n")
    run, path = layout.root.name, project / "out/ckpt.pt"
    assert str(path) in command.run("ckpt", "list", run).stdout
    refused = command.run("runs", "resume", run)
    assert refused.returncode == 3
    assert f"runs clone {run} --set checkpoint.resume={path}" in refused.stderr
    how = ("--set", f"checkpoint.resume={path}", "--set", 'run.resume_args=["--mode=again"]')
    cloned = command.run("runs", "clone", run, *how)
    assert cloned.returncode == 0, cloned.stdout + cloned.stderr
    assert trained(project) == [1, 2, 3, 3, 4, 5, 6]
