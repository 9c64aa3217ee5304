"""Trainings that Torchdeck stops and resumes end with the curve that they have by hand."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from support.cli.command import agent_events, wait_for_step
from support.training.inside_scripts import (
    HUGGING_FACE,
    LIGHTNING,
    ScriptRun,
    by_hand,
)
from support.training.live_progress import live_progress
from support.values.metrics import opened
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.inside_state import read_inside_state
from torchdeck.contract.metrics.progress import read_progress
from torchdeck.contract.run_states import RankPhase
from torchdeck.runs.follower import read_run

pytestmark = pytest.mark.processes

HF_BY_HAND = (
    HUGGING_FACE.replace(
        "        time.sleep(PACE)\n",
        "        time.sleep(PACE if os.path.exists('slow') else 0)\n"
        "        if _[1].global_step == int(os.environ.get('STOP_AT', 0)):\n"
        "            _[2].should_save = _[2].should_training_stop = True\n",
    )
    .replace("trainer.train()", "trainer.train(resume_from_checkpoint=os.environ.get('BY_HAND'))")
    .replace('save_strategy="no"', 'save_strategy="steps", save_steps=1000')
    + """
if os.path.exists("fails") and os.environ["RANK"] == "1":
    raise KeyError("bad")
"""
)
LIGHTNING_BY_HAND = (
    LIGHTNING.replace("import sys, time", "import os, sys, time")
    .replace("time.sleep(PACE)", "time.sleep(PACE if os.path.exists('slow') else 0)")
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


def stopped(script: ScriptRun, config: Path, total: int) -> tuple[RunLayout, int]:
    """Stop the run after step 5: both ranks save after the same step, and end with 0. Return that step."""
    (script.folder / "slow").touch()
    with script.command.start("--no-gui", "--trust", config) as front:
        layout = script.command.the_run()
        wait_for_step(layout, 5, 90)
        assert live_progress(script.command)["total"] == total
        done = script.command.run("runs", "stop", layout.root.name)
        assert done.returncode == 0, done.stdout + done.stderr
        front.communicate(timeout=60)
    (script.folder / "slow").unlink()
    ranks = [layout.attempt(1).rank(rank) for rank in (0, 1)]
    steps = {rank.stdout.read_text().rpartition("ended at step ")[2].strip() for rank in ranks}
    assert len(steps) == 1, steps
    step = int(steps.pop())
    assert 5 <= step < total
    for rank in ranks:
        progress = read_progress(rank.progress)
        assert progress is not None
        assert (progress.phase, progress.step) == (RankPhase.STOPPING, step)
        assert rank.exit.read_text().strip() == "0"
    assert script.command.json("runs", "show", layout.root.name)["state"] == "CANCELLED"
    return layout, step


def resumed(
    script: ScriptRun, layout: RunLayout, step: int, total: int, trainer: str, *, code: int = 0
) -> None:
    """Resume the run without a word on how; it trains to its end, and no callback fails."""
    done = script.command.run("runs", "resume", layout.root.name)
    assert done.returncode == code, done.stdout + done.stderr
    assert agent_events(layout, "attempt_started")[1].fields["resume_step"] == step
    for rank in (0, 1):
        files = layout.attempt(2).rank(rank)
        progress, state = read_progress(files.progress), read_inside_state(files.inside)
        assert progress is not None
        assert (progress.phase, progress.step, progress.total) == (RankPhase.DONE, total, total)
        assert state is not None
        assert (state.trainer, state.failures) == (trainer, ())


def history(folder: Path) -> list[dict[str, Any]]:
    _, rows = json.loads((folder / "log_history.json").read_text())
    return untimed(rows)


def untimed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    timed = ("runtime", "per_second")
    return [{k: v for k, v in row.items() if not any(word in k for word in timed)} for row in rows]


def plotted(layout: RunLayout, name: str, rank: int) -> list[tuple[int, float]]:
    series = opened(layout.root).series(name, rank)
    return list(zip(series.steps.tolist(), series.values.tolist(), strict=True))


@pytest.mark.timeout(480)  # four trainings on two ranks, with their imports
@pytest.mark.shows(
    *("Hugging Face Trainer", "starts", "metrics", "steps", "total and ETA", "checkpoints"),
    *("stop saves", "resume", "failure named"),
)
def test_hugging_face(tmp_path: Path) -> None:
    """With data-loader workers: the log history is equal in all its digits, and is plotted for both ranks.

    After the training one rank fails: it is named, with the user's own file and line.
    """
    script = ScriptRun(tmp_path / "project", tmp_path / "home")
    args = ("60", "0.6", "1")
    layout, step = stopped(script, script.config(HF_BY_HAND, *args), 60)
    saved = script.folder / "out" / f"checkpoint-{step}" / "trainer_state.json"
    assert json.loads(saved.read_text())["global_step"] == step
    listed = script.command.json("ckpt", "list", layout.root.name)
    assert [(row["name"], row["step"]) for row in listed] == [(f"checkpoint-{step}", step)]
    before = history(script.folder)
    (script.folder / "fails").touch()
    resumed(script, layout, step, 60, "Hugging Face Trainer", code=1)
    failure = read_run(layout).first_failure
    assert failure is not None
    assert (failure.rank, failure.message) == (1, "KeyError: 'bad'")
    line = HF_BY_HAND.count("\n")
    assert f'File "{script.folder}/train.py", line {line}, in <module>' in failure.traceback
    hand = tmp_path / "by_hand"
    by_hand(hand, HF_BY_HAND, args, STOP_AT=str(step))
    by_hand(hand, HF_BY_HAND, args, BY_HAND=f"out/checkpoint-{step}")
    rows = history(script.folder)
    assert rows == history(hand)
    assert rows[-1]["step"] == 60
    both = [*before, *(row for row in rows if row["step"] > step)]
    for name in ("loss", "grad_norm", "learning_rate", "eval_loss", "epoch"):
        logged = [(row["step"], row[name]) for row in both if name in row]
        for rank in (0, 1):
            assert plotted(layout, name, rank) == logged


@pytest.mark.soak  # a normal run stops and resumes the preset in test_preset_programs.py
@pytest.mark.timeout(480)  # four trainings on two ranks, with their imports
@pytest.mark.shows("Lightning", "metrics", "total and ETA", "stop saves", "resume")
def test_lightning(tmp_path: Path) -> None:
    """The rows of its logger are equal, and are what is plotted; the other rank has its own."""
    script = ScriptRun(tmp_path / "project", tmp_path / "home")
    args = ("60", "0.5")
    layout, step = stopped(script, script.config(LIGHTNING_BY_HAND, *args), 60)
    assert (script.folder / "checkpoints" / f"epoch=0-step={step}.ckpt").is_file()
    before = table(script.folder)
    resumed(script, layout, step, 60, "Lightning")
    hand = tmp_path / "by_hand"
    by_hand(hand, LIGHTNING_BY_HAND, args, STOP_AT=str(step))
    by_hand(hand, LIGHTNING_BY_HAND, args, BY_HAND="by_hand.ckpt")
    rows = table(script.folder)
    assert rows == table(hand)
    assert int(rows[-1]["step"]) == 59
    for name in ("train_loss", "val_loss", "epoch"):
        logged = [(int(row["step"]), float(row[name])) for row in (*before, *rows) if row[name]]
        assert plotted(layout, name, 0) == logged
        assert [at for at, _ in plotted(layout, name, 1)] == [at for at, _ in logged]


def table(folder: Path) -> list[dict[str, str]]:
    """Lightning's own table, which it writes again after a resume."""
    with (folder / "logs/lightning_logs/version_0/metrics.csv").open() as file:
        return list(csv.DictReader(file))
