"""Presets with programs of other trainers run as they are written, with the real packages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.cli.command import Command
from support.system.trainers_python import ABSENT, trainers_python
from torchdeck.runs.follower import read_run

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(trainers_python() is None, reason=ABSENT),
]

SHORT = {
    "hf-sft": ("--output_dir", "outputs", "--max_steps", "6", "--save_steps", "4", "--report_to", "none"),
    "hf-lora": ("--lora_rank", "4", "--output_dir", "outputs", "--max_steps", "6", "--save_steps", "4"),
    "lightning": ("--epochs", "2", "--devices", "2", "--batch-size", "256"),
    "accelerate": ("--steps", "6", "--checkpointing_steps", "4"),
    "nanogpt": ("--max_iters", "6", "--eval_interval", "4", "--log_interval", "1"),
}
"""Preset → arguments for a run of a few steps."""
LISTED = {
    "hf-sft": "checkpoint-4",
    "hf-lora": "checkpoint-4",
    "lightning": "epoch=1-step=16.ckpt",
    "accelerate": "checkpoint-4",
    "nanogpt": "ckpt.pt",
}
"""Preset → a checkpoint that is listed at the end."""


@pytest.mark.parametrize("preset", SHORT)
def test_preset_trains_and_its_checkpoints_are_known(
    preset: str, torchdeck_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    command = Command(torchdeck_home)
    assert command.run("init", "--preset", preset, tmp_path).returncode == 0
    choices = (f"run.interpreter={trainers_python()}", f"run.args={json.dumps(SHORT[preset])}")
    sets = [word for choice in choices for word in ("--set", choice)]
    done = command.run("--no-gui", "--trust", tmp_path / "run.toml", *sets)
    assert done.returncode == 0, done.stdout + done.stderr
    run = command.the_run()
    listed = command.json("ckpt", "list", run.root.name)
    assert LISTED[preset] in [row["name"] for row in listed], listed
    assert read_run(run).state.value == "SUCCEEDED"


def test_torchtitan_prepares_its_data_and_wants_a_gpu(
    torchdeck_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its trainer needs CUDA from its first lines on; all before them runs here."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    command = Command(torchdeck_home)
    assert command.run("init", "--preset", "torchtitan", tmp_path).returncode == 0
    choices = (f"run.interpreter={trainers_python()}", "distributed.devices=cpu", "launch.max_restarts=0")
    sets = [word for choice in choices for word in ("--set", choice)]
    done = command.run("--no-gui", "--trust", tmp_path / "run.toml", *sets)
    assert done.returncode == 1
    assert "cuda" in done.stdout.lower()
    assert (tmp_path / "tests/assets/tokenizer/tokenizer.json").is_file()
