"""Settings of known programs, as their arguments and config files name them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from torchdeck.trainers.arguments import named_values
from torchdeck.trainers.contradictions import Ranks, contradictions
from torchdeck.trainers.program_settings import ProgramSettings, program_settings

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
AUTO = {
    "bf16": {"enabled": "auto"},
    "fp16": {"enabled": "auto"},
    "train_micro_batch_size_per_gpu": "auto",
    "zero_optimization": {"stage": 3},
}
"""As the Hugging Face Trainer wants it: its own arguments decide."""


def settings(folder: Path, command: str) -> ProgramSettings:
    return program_settings(named_values(command.split(), folder))


@pytest.mark.parametrize(
    ("command", "ranks", "summary"),
    [
        (
            "python sft.py --per_device_train_batch_size 8 --gradient_accumulation_steps=4 --bf16 true",
            2,
            "micro-batch 8 × accumulation 4 × 2 ranks = 64 per step; bf16",
        ),
        (
            "python sft.py --lora_r 8 --gradient_checkpointing true",
            1,
            "activation checkpointing; LoRA rank 8",
        ),
        (
            "python -m torchtitan.train --training.local_batch_size 4",
            4,
            "micro-batch 4 × 4 ranks = 16 per step",
        ),
        (
            "python train.py --deepspeed ds.json",
            4,
            "micro-batch 4 × accumulation 4 × 4 ranks = 64 per step; bf16; DeepSpeed ZeRO 2",
        ),
        (
            "python sft.py --per_device_train_batch_size 4 --per-device-train-batch-size 8",
            1,
            "micro-batch 8 × 1 rank = 8 per step",
        ),
        (
            "python train.py --deepspeed zero3.json --deepspeed ds.json",
            4,
            "micro-batch 4 × accumulation 4 × 4 ranks = 64 per step; bf16; DeepSpeed ZeRO 2",
        ),
        ("python train.py --lr 0.1", 2, ""),
        ("python train.py --per_device_train_batch_size auto --fp16 false", 2, ""),
    ],
)
def test_settings_are_summed_up(tmp_path: Path, command: str, ranks: int, summary: str) -> None:
    (tmp_path / "ds.json").write_text(json.dumps(DEEPSPEED))
    (tmp_path / "zero3.json").write_text(json.dumps(AUTO))
    found = settings(tmp_path, command)
    assert found.summary(ranks) == summary
    assert not list(contradictions(found, Ranks(ranks)))


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
        (
            "python t.py --bf16 --mixed_precision fp16",
            2,
            ["both bf16 (--bf16) and fp16 (--mixed_precision) are on"],
        ),
        ("python t.py --bf16 --mixed_precision=bf16", 2, []),
        ("python t.py --bf16 --deepspeed auto.json", 2, []),
        (
            "python t.py --per_device_train_batch_size 8 --gradient_accumulation_steps 2 --deepspeed ds.json",
            8,
            [
                "--per_device_train_batch_size is 8, and train_micro_batch_size_per_gpu in ds.json is 4",
                "--gradient_accumulation_steps is 2, and gradient_accumulation_steps in ds.json is 4",
                "train_batch_size in ds.json is 64, and 8 × 2 × 8 ranks is 128",
            ],
        ),
        ("python t.py --nproc_per_node 4", 2, ["--nproc_per_node is 4, and a node of this plan has 2 ranks"]),
        ("python t.py --trainer.devices=2 --trainer.num_nodes=1", 2, []),
        ("python t.py --trainer.num_nodes=2", 2, ["--trainer.num_nodes is 2, and this plan has 1 node"]),
        (
            "python t.py --load_in_4bit --load_in_8bit --use_peft",
            2,
            ["both 4-bit (--load_in_4bit) and 8-bit (--load_in_8bit) weights are set"],
        ),
        (
            "python t.py --load_in_8bit",
            2,
            ["weights are loaded in 8 bit (--load_in_8bit), and no LoRA is asked for"],
        ),
        (
            "python t.py --gradient_checkpointing --fsdp full_shard --fsdp_activation_checkpointing true",
            2,
            [
                (
                    "activation checkpointing is set twice, by --gradient_checkpointing and by "
                    "--fsdp_activation_checkpointing"
                )
            ],
        ),
    ],
)
def test_contradictions_are_named(tmp_path: Path, command: str, ranks: int, what: list[str]) -> None:
    texts = {"ds.json": json.dumps(DEEPSPEED), "auto.json": json.dumps(AUTO)}
    for name, text in {"a.yaml": ACCELERATE, "x.yaml": AXOLOTL, **texts}.items():
        (tmp_path / name).write_text(text)
    found = list(contradictions(settings(tmp_path, command), Ranks.of([ranks])))
    assert [each.what for each in found] == what
    assert all(each.fix for each in found)
