"""Programs that are stopped and resumed by Torchdeck end with the curve that they have by hand."""

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
from support.training.inside_scripts import (
    HUGGING_FACE,
    LIGHTNING,
    ScriptRun,
    by_hand,
    ending,
    torchrun_environment,
)
from support.training.live_progress import live_progress
from torchdeck.contract.layout import RunLayout

pytestmark = pytest.mark.processes

HF_BY_HAND = (
    HUGGING_FACE.replace(
        "        time.sleep(PACE)\n",
        "        time.sleep(PACE)\n"
        "        if _[1].global_step == int(os.environ.get('STOP_AT', 0)):\n"
        "            _[2].should_save = _[2].should_training_stop = True\n",
    )
    .replace("trainer.train()", "trainer.train(resume_from_checkpoint=os.environ.get('BY_HAND'))")
    .replace('save_strategy="no"', 'save_strategy="steps", save_steps=1000')
)
LIGHTNING_BY_HAND = (
    LIGHTNING.replace("import sys, time", "import os, sys, time")
    .replace(
        "pl.seed_everything(0)",
        "class Stop(pl.Callback):\n"
        "    def on_train_batch_end(self, trainer, *_):\n"
        "        if trainer.global_step == int(os.environ.get('STOP_AT', 0)):\n"
        "            trainer.save_checkpoint('by_hand.ckpt')\n"
        "            trainer.should_stop = True\n"
        "\n\npl.seed_everything(0)",
    )
    .replace("enable_checkpointing=False,", "enable_checkpointing=False, callbacks=[Stop()],")
    .replace("rows[:16], 2))", "rows[:16], 2), ckpt_path=os.environ.get('BY_HAND'))")
)


def stopped_and_resumed(script: ScriptRun, config: Path, at: int) -> tuple[RunLayout, int]:
    """Stop the run at a step, and resume it without a word on how; the step it continued from."""
    with script.command.start("--no-gui", "--trust", config) as front:
        layout = script.command.the_run()
        wait_for_step(layout, at, 90)
        live_progress(script.command)
        stopped = script.command.run("runs", "stop", layout.root.name)
        assert stopped.returncode == 0, stopped.stdout + stopped.stderr
        front.communicate(timeout=60)
    resumed = script.command.run("runs", "resume", layout.root.name)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    step = agent_events(layout, "attempt_started")[1].fields["resume_step"]
    assert isinstance(step, int)
    assert step >= at
    return layout, step


def history(folder: Path) -> list[dict[str, Any]]:
    _, rows = json.loads((folder / "log_history.json").read_text())
    return untimed(rows)


def untimed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    timed = ("runtime", "per_second")
    return [{k: v for k, v in row.items() if not any(word in k for word in timed)} for row in rows]


@pytest.mark.timeout(480)  # four trainings on two ranks, with their imports
@pytest.mark.shows("Hugging Face Trainer", "resume")
def test_hugging_face(tmp_path: Path) -> None:
    """The log history is equal, in all its digits."""
    script = ScriptRun(tmp_path / "project", tmp_path / "home")
    args = ("24", "0.6", "0")
    _, step = stopped_and_resumed(script, script.config(HF_BY_HAND, *args), 5)
    hand = tmp_path / "by_hand"
    quick = ("24", "0", "0")
    by_hand(hand, HF_BY_HAND, quick, STOP_AT=str(step))
    by_hand(hand, HF_BY_HAND, quick, BY_HAND=f"out/checkpoint-{step}")
    assert history(script.folder) == history(hand)
    assert history(hand)[-1]["step"] == 24


@pytest.mark.timeout(480)  # four trainings on two ranks, with their imports
@pytest.mark.shows("Lightning", "resume")
def test_lightning(tmp_path: Path) -> None:
    """The rows of its logger are equal."""
    script = ScriptRun(tmp_path / "project", tmp_path / "home")
    _, step = stopped_and_resumed(script, script.config(LIGHTNING_BY_HAND, "30", "0.5"), 6)
    hand = tmp_path / "by_hand"
    by_hand(hand, LIGHTNING_BY_HAND, ("30", "0"), STOP_AT=str(step))
    by_hand(hand, LIGHTNING_BY_HAND, ("30", "0"), BY_HAND="by_hand.ckpt")
    metrics = "logs/lightning_logs/version_0/metrics.csv"
    assert (script.folder / metrics).read_text() == (hand / metrics).read_text()


FAILS = """
    import os
    import torch
    import torch.optim.optimizer as optimizers
    from pathlib import Path as Folder

    torch.manual_seed(0)
    steps = []

    def fail(*_):
        steps.append(1)
        failed = Folder(f"failed-{os.environ['RANK']}")
        if len(steps) == 7 and not failed.exists():
            failed.touch()
            raise RuntimeError("a failure at step 7")

    optimizers.register_optimizer_step_post_hook(fail)
"""
"""Put at the begin of a preset's program."""
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
            marks=pytest.mark.shows("TRL with PEFT (LoRA)", "resume"),
        ),
        pytest.param(
            *("accelerate", 2, "--output_dir out --steps 10 --checkpointing_steps 4", "curve.txt"),
            marks=pytest.mark.shows("accelerate", "resume"),
        ),
        pytest.param(
            *("nanogpt", 2, "--max_iters 10 --eval_interval 4 --log_interval 1", "curve.txt"),
            marks=pytest.mark.shows("nanoGPT", "resume"),
        ),
    ],
)
def test_a_preset_after_a_failure(
    tmp_path: Path, torchdeck_home: Path, preset: str, ranks: int, arguments: str, curve: str
) -> None:
    """By the preset's own flag; equal in all digits to the same failure and resume by hand."""
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
    words = [word for each in sets for word in ("--set", each)]
    done = command.run("--no-gui", "--trust", project / "run.toml", *words, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    second = agent_events(command.the_run(), "attempt_started")[1].fields
    name = "ckpt.pt" if preset == "nanogpt" else "checkpoint-4"
    assert (Path(second["resume"]).name, second["resume_step"]) == (name, 4)

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


def plotted(curve: Path) -> list[Any]:
    """The rows of a curve, without times."""
    if curve.suffix == ".txt":
        return curve.read_text().splitlines()
    return untimed(json.loads(curve.read_text())["log_history"])


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


@pytest.mark.parametrize(
    ("saved_as", "resume_args", "again"),
    [("ckpt.pt", ["--mode=again"], ["--mode=again"]), ("snapshot.pt", [], [])],
)
def test_a_rewritten_file(
    tmp_path: Path, torchdeck_home: Path, saved_as: str, resume_args: list[str], again: list[str]
) -> None:
    """After a crash, with the arguments of the run file, or by starting it again, which is resuming."""
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
    for arguments in ([], again):
        subprocess.run(
            [sys.executable, "train.py", *arguments],
            cwd=hand,
            env={**os.environ, "SAVED_AS": saved_as},
            check=False,
            timeout=60,
        )
    assert (folder / "curve.txt").read_text() == (hand / "curve.txt").read_text()
    assert (hand / "curve.txt").read_text().split()[::2] == list("12345") + list("5678")
