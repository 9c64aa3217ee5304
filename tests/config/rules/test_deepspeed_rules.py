"""What is wrong with options of DeepSpeed, said at its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.values.run_files import MINIMAL, load, problems

DEEPSPEED = "distributed.strategy=deepspeed"


@pytest.mark.parametrize("value", ["0", "4", "2.0", "true", "'2'", "[2]"])
def test_a_stage_is_one_two_or_three(tmp_path: Path, value: str) -> None:
    """A number that is equal to one of them is not one of them."""
    (problem,) = problems(tmp_path, MINIMAL, DEEPSPEED, f"distributed.deepspeed.zero_stage={value}")
    assert problem.path == "distributed.deepspeed.zero_stage"
    assert problem.right == "1, 2 or 3"
    assert ("out of range" in problem.wrong) == (value in ("0", "4"))


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_stages_are_taken(tmp_path: Path, stage: int) -> None:
    """All there are."""
    config = load(tmp_path, MINIMAL, DEEPSPEED, f"distributed.deepspeed.zero_stage={stage}")
    assert config.distributed.deepspeed.zero_stage == stage


def test_every_precision_is_taken(tmp_path: Path) -> None:
    """fp16 too, and a moving average with it: the engine is in fp32 then."""
    more = (DEEPSPEED, "training.precision=fp16", "training.ema=0.9")
    assert load(tmp_path, MINIMAL, *more).training.precision == "fp16"


@pytest.mark.parametrize(
    ("overrides", "path", "wrong"),
    [
        ([DEEPSPEED, "distributed.deepspeed.offload_parameters=true"],
         "distributed.deepspeed.offload_parameters", "with zero_stage = 2 every device holds all weights"),
        ([DEEPSPEED, "distributed.deepspeed.zero_stage=3", "training.ema=0.9"],
         "training.ema", "whole fp32 weights"),
        ([DEEPSPEED, "training.precision=bf16", "training.ema=0.9"], "training.ema", 'precision = "bf16"'),
        (["distributed.deepspeed.offload_optimizer=true"],
         "distributed.deepspeed.offload_optimizer", 'no effect with distributed.strategy = "ddp"'),
        ([DEEPSPEED, "distributed.fsdp.cpu_offload=true"], "distributed.fsdp.cpu_offload", "no effect"),
    ],
)  # fmt: skip
def test_what_does_not_go_together(tmp_path: Path, overrides: list[str], path: str, wrong: str) -> None:
    """Options that DeepSpeed, this stage of it or another strategy cannot follow."""
    (problem,) = problems(tmp_path, MINIMAL, *overrides)
    assert problem.path == path
    assert wrong in problem.wrong


@pytest.mark.parametrize(
    "key",
    [
        "distributed.deepspeed.zero_stage=3",
        "checkpoint.every_epochs=1",
        "checkpoint.mtbf=2.0",
        "checkpoint.max_stall=0.1",
        "checkpoint.background=true",
        "checkpoint.keep_every=5",
        "telemetry.stats_every=10",
        "telemetry.profile_steps=[1, 2]",
    ],
)
def test_a_script_reads_none_of_it(tmp_path: Path, key: str) -> None:
    """What only our trainer does is no key of a script's run."""
    path = key.partition("=")[0]
    found = problems(tmp_path, "name = 'x'\n[run]\nscript = 'train.py'\n", key)
    assert "a script cannot read it" in {problem.path: problem.wrong for problem in found}[_table(path)]


def _table(path: str) -> str:
    return "distributed.deepspeed" if path.startswith("distributed") else path
