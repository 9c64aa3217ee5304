"""A run under DeepSpeed as a person starts it: planned, launched, and refused where the package is not."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from support.cli.command import Command
from support.system.deepspeed_python import ABSENT, deepspeed_python
from support.training.training import losses

RUN = """\
name = "zero"

[run]
recipe = "byte-gpt"
{interpreter}

[model]
layers = 1
heads = 2
width = 16
context = 8

[data]
max_bytes = 5000

[training]
steps = 6
microbatch = 2
accumulation = 2
clip = 1.0

[distributed]
strategy = "deepspeed"
nproc = 2
devices = "cpu"

[distributed.deepspeed]
zero_stage = 2

[checkpoint]
every = 4

[limits]
min_free_disk = "1MiB"
"""


def written(folder: Path, python: str | None) -> Path:
    """A run file, ranks under `python`."""
    file = folder / "run.toml"
    file.write_text(RUN.format(interpreter="" if python is None else f'interpreter = "{python}"'))
    return file


@pytest.mark.processes
@pytest.mark.skipif(deepspeed_python() is None, reason=ABSENT)
def test_a_run_trains_and_is_audited(tmp_path: Path) -> None:
    """Losses fall, checkpoints are there, memory is predicted, and output holds no noise of DeepSpeed's."""
    command = Command(tmp_path / "home")
    done = command.run("--no-gui", "--trust", written(tmp_path, deepspeed_python()))
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = command.runs()
    followed = losses(run)
    assert len(followed) == 6
    assert followed[6] < followed[1]
    assert {path.name for path in run.checkpoints.iterdir()} >= {"step_00000004", "final"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("[rank")]
    assert all("] step " in line or line.endswith("training is complete") for line in lines), lines
    shown: Any = command.json("runs", "show", run.root.name)
    assert all(rank["predicted_memory_bytes"] > 0 for rank in shown["audit"]["ranks"]), shown["audit"]


@pytest.mark.processes
@pytest.mark.skipif(importlib.util.find_spec("deepspeed") is not None, reason="DeepSpeed is installed here")
def test_a_python_without_deepspeed_is_refused_before_the_start(tmp_path: Path) -> None:
    """`torchdeck check` and a start say what to install; no run is made."""
    command, file = Command(tmp_path / "home"), written(tmp_path, None)
    for arguments in (("check",), ("--no-gui",)):
        done = command.run(*arguments, file)
        assert done.returncode != 0
        said = " ".join((done.stdout + done.stderr).split())
        assert 'distributed.strategy is "deepspeed", and there is no DeepSpeed in' in said
        assert "pip install 'torchdeck[deepspeed]'" in said
    assert not command.runs()


@pytest.mark.processes
@pytest.mark.soak
def test_a_plan_says_what_a_stage_divides(tmp_path: Path) -> None:
    """Not weights, under ZeRO 2; and compares its stages like any other strategy."""
    command, file = Command(tmp_path / "home"), written(tmp_path, None)
    shown = command.run("plan", file)
    assert "gradients and optimizer state are sharded over all 2 ranks" in shown.stdout, shown.stderr
    compared = command.run("plan", file, "--compare", "ddp,zero1,zero2,zero3")
    assert compared.returncode == 0, compared.stderr
    assert compared.stdout.count("✓ fits") == 4
    assert "does not launch" not in compared.stdout
