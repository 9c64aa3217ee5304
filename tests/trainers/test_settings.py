"""Settings of known programs, as their arguments and config files name them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from torchdeck.trainers.arguments import named_values
from torchdeck.trainers.settings import ProgramSettings, program_settings

ACCELERATE = """
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
fsdp_config:
  fsdp_offload_params: false
mixed_precision: bf16
num_machines: 1
num_processes: 8
"""
AXOLOTL = """
base_model: ./llama
micro_batch_size: 2
gradient_accumulation_steps: 4
bf16: auto
fp16:
gradient_checkpointing: true
adapter: lora
lora_r: 16
deepspeed: zero2.json
fsdp: [full_shard, auto_wrap]
"""
DEEPSPEED = {
    "train_batch_size": 64,
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 4,
    "zero_optimization": {"stage": 2},
    "bf16": {"enabled": True},
}


def settings(folder: Path, command: str) -> ProgramSettings:
    return program_settings(named_values(command.split(), folder))


@pytest.mark.parametrize(
    ("command", "ranks", "summary"),
    [
        (
            "python sft.py --per_device_train_batch_size 8 --gradient_accumulation_steps=4 --bf16 true",
            2,
            "micro-batch 8 × accumulation 4 × 2 ranks = 64 a step; bf16",
        ),
        (
            "python sft.py --lora_r 8 --gradient_checkpointing true",
            1,
            "activation checkpointing; LoRA rank 8",
        ),
        (
            "python -m torchtitan.train --training.local_batch_size 4",
            4,
            "micro-batch 4 × 4 ranks = 16 a step",
        ),
        (
            "python train.py --deepspeed ds.json",
            4,
            "micro-batch 4 × accumulation 4 × 4 ranks = 64 a step; bf16; DeepSpeed ZeRO 2",
        ),
        ("python train.py --lr 0.1", 2, ""),
        ("python train.py --per_device_train_batch_size auto --fp16 false", 2, ""),
    ],
)
def test_settings_are_summed_up(tmp_path: Path, command: str, ranks: int, summary: str) -> None:
    (tmp_path / "ds.json").write_text(json.dumps(DEEPSPEED))
    found = settings(tmp_path, command)
    assert found.summary(ranks) == summary
    assert not list(found.contradictions(ranks))


@pytest.mark.parametrize(
    ("command", "ranks", "what"),
    [
        ("python t.py --config a.yaml", 2, ["num_processes in a.yaml is 8, and this plan has 2 ranks"]),
        ("python t.py --config a.yaml", 8, []),
        (
            "python -m axolotl.cli.train x.yaml",
            2,
            ["both DeepSpeed (deepspeed in x.yaml) and FSDP (fsdp in x.yaml) are set"],
        ),
        ("python t.py --bf16 true --fp16 true", 2, ["both bf16 (--bf16) and fp16 (--fp16) are on"]),
        (
            "python t.py --deepspeed ds.json",
            2,
            ["train_batch_size in ds.json is 64, and 4 × 4 × 2 ranks is 32"],
        ),
        (
            "python pretrain_gpt.py --tensor-parallel-degree 2 --context_parallel_size 3",
            4,
            ["--tensor-parallel-degree 2 × --context_parallel_size 3 is 6, which does not divide 4 ranks"],
        ),
        (
            "python -m torchtitan.train --data_parallel_shard_degree 4 --p.tensor_parallel_degree=2",
            4,
            ["--p.tensor_parallel_degree 2 × --data_parallel_shard_degree 4 is 8, and this plan has 4 ranks"],
        ),
        ("python -m torchtitan.train --parallelism.data_parallel_shard_degree -1", 4, []),
        ("python pretrain_gpt.py --micro-batch-size 4 --global-batch-size 64", 4, []),
    ],
)
def test_contradictions_are_named(tmp_path: Path, command: str, ranks: int, what: list[str]) -> None:
    for name, text in {"a.yaml": ACCELERATE, "x.yaml": AXOLOTL, "ds.json": json.dumps(DEEPSPEED)}.items():
        (tmp_path / name).write_text(text)
    found = list(settings(tmp_path, command).contradictions(ranks))
    assert [each.what for each in found] == what
    assert all(each.fix for each in found)
