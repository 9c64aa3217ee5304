"""Programs that fail and are restarted by Torchdeck have the curve that they have by hand."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from support.cli.command import Command, agent_events, wait_for_step
from support.system.trainers_python import ABSENT, trainers_python
from support.training.inside_scripts import ending, torchrun_environment
from support.training.live_progress import live_progress
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.follower import read_run
from torchdeck.runs.run_state import RunState
from torchdeck.runs.training_progress import ProgressReader

pytestmark = pytest.mark.processes

FAILS = """
    import os, time
    import torch
    import torch.optim.optimizer as optimizers
    from pathlib import Path as Folder

    torch.manual_seed(0)
    steps = []
    rank, last = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]) - 1

    def fail(*_):
        steps.append(1)
        time.sleep(0.3 if Folder("slow").exists() else 0)
        while len(steps) == 5 and Folder("slow").exists():
            time.sleep(0.05)
        if len(steps) == 7 and not Folder(f"failed-{rank}").exists():
            Folder(f"failed-{rank}").touch()
            while rank != last or not Folder("failed-0").exists():
                time.sleep(0.01)  # the others until torchrun ends them
            raise RuntimeError("broken here")

    optimizers.register_optimizer_step_post_hook(fail)
"""
"""Put at the begin of a preset's program: the last rank fails at step 7. A slow one holds at step 5."""
RECORDED = {
    "            bar.update(1)\n": """
            if accelerator.is_local_main_process:
                Path("curve.txt").open("a").write(f"{step} {loss.item()!r}\\n")
""",
    "            value = loss.item()\n": """
            Path("curve.txt").open("a").write(f"{number} {value!r}\\n")
""",
}
"""A line of a preset → what it does after it."""


@pytest.mark.timeout(480)  # four trainings, with their imports
@pytest.mark.parametrize(
    ("preset", "ranks", "arguments", "curve"),
    [
        pytest.param(
            *("hf-lora", 1),
            "--lora_rank 4 --output_dir out --max_steps 10 --save_steps 4 --logging_steps 1",
            "out/checkpoint-10/trainer_state.json",
            marks=pytest.mark.soak,  # test_resumed_curves.py compares the same Trainer's
        ),
        pytest.param(
            *("accelerate", 2, "--output_dir out --steps 10 --checkpointing_steps 4", "curve.txt"),
            marks=pytest.mark.soak,  # test_loops.py compares those of diffusers, which accelerate saves, too
        ),
        pytest.param(
            *("nanogpt", 2, "--max_iters 10 --eval_interval 4 --log_interval 1", "curve.txt"),
            marks=pytest.mark.shows(
                *("nanoGPT", "starts", "metrics", "steps", "total and ETA", "checkpoints", "resume"),
                "failure named",
            ),
        ),
    ],
)
def test_a_preset_after_a_failure(
    tmp_path: Path, torchdeck_home: Path, preset: str, ranks: int, arguments: str, curve: str
) -> None:
    """By the preset's own flag; equal in all digits to the same failure and resume by hand.

    Step, total, time left, loss, checkpoints and the rank that failed are known.
    """
    python = trainers_python()
    if python is None:
        pytest.skip(ABSENT)
    command = Command(torchdeck_home)
    project, hand = tmp_path / "project", tmp_path / "hand"
    assert command.run("init", "--preset", preset, project).returncode == 0
    (script,) = project.glob("*.py")
    text = script.read_text().replace("def main() -> None:\n", f"def main() -> None:{FAILS}")
    for line, more in RECORDED.items():
        text = text.replace(line, line.removesuffix("\n") + more)
    script.write_text(ending(text))
    shutil.copytree(project, hand)
    args = arguments.split()
    sets = [f"run.args={json.dumps(args)}", f"run.interpreter={python}", "launch.max_restarts=1"]
    sets += [f"distributed.nproc={ranks}", 'run.env.HF_HUB_OFFLINE="1"', 'run.env.OMP_NUM_THREADS="1"']
    run = restarted(command, project, [word for each in sets for word in ("--set", each)])
    name = "ckpt.pt" if preset == "nanogpt" else "checkpoint-4"
    check_shown(run, command, script, ranks - 1, name)

    argv = [python, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}", "--standalone", script.name]
    argv += args
    flags = (
        ["--init_from=resume"] if preset == "nanogpt" else ["--resume_from_checkpoint", "out/checkpoint-4"]
    )
    for again in ([], flags):
        environment = {**torchrun_environment(), "OMP_NUM_THREADS": "1"}
        subprocess.run(
            [*argv, *again], cwd=hand, env=environment, check=bool(again), timeout=120, capture_output=True
        )
    assert plotted(project / curve) == plotted(hand / curve)
    assert len(plotted(hand / curve)) >= 10


def restarted(command: Command, project: Path, words: list[str]) -> RunLayout:
    """Run the preset through its failure to its end; while it runs, its total and time left are known."""
    (project / "slow").touch()
    with command.start("--no-gui", "--trust", project / "run.toml", *words) as front:
        run = command.the_run()
        wait_for_step(run, 3, 90)
        assert live_progress(command)["total"] == 10
        (project / "slow").unlink()
        output, _ = front.communicate(timeout=200)
    assert front.returncode == 0, output
    return run


def check_shown(run: RunLayout, command: Command, script: Path, rank: int, checkpoint: str) -> None:
    """The failure, the checkpoint that the restart continued from, and the progress at the end."""
    view = read_run(run)
    assert view.state is RunState.SUCCEEDED
    failure = view.attempts[0].first_failure
    assert failure is not None
    assert (failure.rank, failure.message) == (rank, "RuntimeError: broken here")
    line = script.read_text().partition('RuntimeError("broken here")')[0].count("\n") + 1
    assert f'File "{script}", line {line}, in fail' in failure.traceback
    second = agent_events(run, "attempt_started")[1].fields
    assert (Path(second["resume"]).name, second["resume_step"]) == (checkpoint, 4)
    assert checkpoint in [row["name"] for row in command.json("ckpt", "list", run.root.name)]
    progress = ProgressReader(run).read(view)
    assert progress is not None
    assert (progress.step, progress.total) == (10, 10)
    assert progress.loss is not None
    assert 0 < progress.loss < 100


def plotted(curve: Path) -> list[Any]:
    """The rows of a curve, without times."""
    if curve.suffix == ".txt":
        return curve.read_text().splitlines()
    timed = ("runtime", "per_second")
    rows = json.loads(curve.read_text())["log_history"]
    return [{k: v for k, v in row.items() if not any(word in k for word in timed)} for row in rows]


TORCH = """
    import argparse, os, signal, time
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", default="scratch")
    parser.add_argument("--steps", type=int, default=8)
    args = parser.parse_args()
    snapshot_path = os.environ.get("SAVED_AS", "ckpt.pt")
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    done = 0
    if args.mode == "again" or (snapshot_path == "snapshot.pt" and os.path.exists(snapshot_path)):
        state = torch.load(snapshot_path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["step"]
    for step in range(done + 1, args.steps + 1):
        batch = torch.randn(8, 64, generator=torch.Generator().manual_seed(step))
        loss = (model(batch) - batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"iter {step}: loss {loss.item():.9f}", flush=True)
        with open("curve.txt", "a") as file:
            file.write(f"{step} {loss.item()!r}\\n")
        if step % 2 == 0:
            torch.save(
                {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step},
                snapshot_path,
            )
        if step == 5 and not os.path.exists("failed"):
            open("failed", "w").close()
            time.sleep(1)
            os.kill(os.getpid(), signal.SIGKILL)
    """


@pytest.mark.soak  # a normal run restarts nanoGPT, above
@pytest.mark.parametrize(
    ("saved_as", "resume_args"),
    [
        ("ckpt.pt", ["--mode=again"]),
        ("snapshot.pt", []),
    ],
)
def test_a_rewritten_file(
    tmp_path: Path, torchdeck_home: Path, saved_as: str, resume_args: list[str]
) -> None:
    """After a crash, with the arguments of the run file, or by starting it again, which is resuming.

    The steps after the checkpoint have the losses of a training by hand that does not crash.
    """
    pytest.importorskip("torch", reason="the script trains with it")
    folder, hand = tmp_path / "project", tmp_path / "by_hand"
    for each in (folder, hand):
        each.mkdir()
        (each / "train.py").write_text(textwrap.dedent(TORCH))
    (folder / "run.toml").write_text(
        f'[run]\nscript = "train.py"\nresume_args = {resume_args}\n[run.env]\nSAVED_AS = "{saved_as}"\n'
        "[distributed]\nnproc = 1\n[launch]\nmax_restarts = 1\n"
    )
    done = Command(torchdeck_home).run("--no-gui", folder / "run.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "from scratch" not in done.stderr
    (hand / "failed").touch()
    environment = {**os.environ, "SAVED_AS": saved_as}
    subprocess.run([sys.executable, "train.py"], cwd=hand, env=environment, check=True, timeout=60)
    whole = (hand / "curve.txt").read_text().splitlines()
    assert [row.split()[0] for row in whole] == list("12345678")
    assert (folder / "curve.txt").read_text().splitlines() == whole[:5] + whole[4:]
