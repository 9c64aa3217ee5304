"""A first training resumes from the checkpoint that Torchdeck names, unless the program names one."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import torchdeck.trainers.inside as inside
from support.system.trainers_python import ABSENT, trainers_python
from support.training.inside_scripts import HUGGING_FACE, LIGHTNING
from support.values.metrics import opened
from torchdeck.contract.layout import RunLayout
from torchdeck.trainers.inside import hugging_face
from torchdeck.trainers.inside.report import Report

FOLDER = Path(inside.__file__).parent
SAVING = HUGGING_FACE.replace('save_strategy="no"', 'save_strategy="steps", save_steps=4')
ALONE = LIGHTNING.replace("devices=2", "devices=1").replace("    enable_checkpointing=False,\n", "")


def trained(folder: Path, text: str, steps: int, resume: Path | None = None) -> RunLayout:
    """Execute a script as the one rank of a run; it must end at its last step."""
    python = trainers_python()
    if python is None:
        pytest.skip(ABSENT)
    (folder / "train.py").write_text(text)
    run = RunLayout(folder / f"run{steps}")
    rank = run.attempt(1).rank(0)
    rank.root.mkdir(parents=True)
    ours = {"TORCHDECK_RUN_ID": "r", "TORCHDECK_RUN_DIR": str(run.root), "TORCHDECK_ATTEMPT": "1"}
    ours |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    ours |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [
            "/bin/sh",
            "-c",
            'echo $$ >"$0"; "$@"; exit $?',
            str(rank.holder),
            python,
            "train.py",
            str(steps),
            "0",
            "0",
        ],
        cwd=folder,
        env={
            **os.environ,
            **ours,
            "PYTHONPATH": f"{FOLDER.parents[2]}:{FOLDER / 'startup'}",
            "TORCHDECK_RESUME": str(resume or ""),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert f"ended at step {steps}" in done.stdout, done.stdout + done.stderr
    return run


@pytest.mark.soak  # tests/trainers/test_resumed_curves.py has whole runs of it
def test_hugging_face(tmp_path: Path) -> None:
    trained(tmp_path, SAVING, 8)
    resumed = trained(tmp_path, SAVING, 12, tmp_path / "out" / "checkpoint-4")
    assert opened(resumed.root).series("grad_norm", 0).steps.tolist() == list(range(5, 13))


def test_only_the_first_training_that_names_no_checkpoint_resumes(tmp_path: Path) -> None:
    """By name, by place, and `False`, which is the default of many programs' own flag."""
    checkpoint = tmp_path / "checkpoint-4"
    checkpoint.mkdir()
    (checkpoint / "trainer_state.json").touch()
    assert used(checkpoint, lambda trainer: trainer.train()) == str(checkpoint)
    assert used(checkpoint, lambda trainer: trainer.train(False, None)) == str(checkpoint)
    assert used(checkpoint, lambda trainer: trainer.train(resume_from_checkpoint=False)) == str(checkpoint)
    assert used(checkpoint, lambda trainer: trainer.train("own", trial=None)) == "own"
    assert used(checkpoint, lambda trainer: trainer.train(resume_from_checkpoint=True)) is True
    assert used(checkpoint, lambda trainer: (trainer.train(), trainer.train())[1]) is None
    assert used(tmp_path, lambda trainer: trainer.train()) is None


def used(checkpoint: Path, train: Callable[[Any], Any]) -> Any:
    """What a Trainer resumes from, if Torchdeck names `checkpoint`."""

    class Trainer:
        def train(self, resume_from_checkpoint: Any = None, trial: Any = None) -> Any:
            assert trial is None
            return resume_from_checkpoint

    module: Any = ModuleType("transformers.trainer")
    module.Trainer, module.TrainerCallback, module.DEFAULT_CALLBACKS = Trainer, object, []
    hugging_face.add(module, Report(RunLayout(checkpoint).attempt(1).rank(0), resume=checkpoint))
    return train(Trainer())


@pytest.mark.soak  # tests/trainers/test_resumed_curves.py has whole runs of it
def test_lightning(tmp_path: Path) -> None:
    trained(tmp_path, ALONE, 6)
    [checkpoint] = tmp_path.rglob("*.ckpt")
    resumed = trained(tmp_path, ALONE, 12, checkpoint)
    # Lightning numbers the first row after a resume as the last one before it
    assert opened(resumed.root).series("train_loss", 0).steps.tolist() == [5, 8, 11]
