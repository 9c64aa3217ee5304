"""What a script's own arguments say, in the preview: values with their sources, and contradictions."""

from __future__ import annotations

import io
import json
import signal
from pathlib import Path

import pytest
from rich.console import Console

from support.values.previews import preview, script_preview
from torchdeck.cli.plan.terminal_views import print_preview
from torchdeck.plan.preview import Preview
from torchdeck.plan.preview.preview_json import document
from torchdeck.telemetry.doctor.rank_heartbeat import STACK_SIGNAL
from torchdeck.trainers.inside import accelerate_loop, deepspeed, hugging_face, lightning, torchtitan

AXOLOTL = """
base_model: ./llama
adapter: qlora
load_in_4bit: true
lora_r: 16
lora_target_modules:
  - q_proj
  - v_proj
micro_batch_size: 2
gradient_accumulation_steps: 4
sequence_len: 2048
optimizer: adamw_bnb_8bit
bf16: auto
gradient_checkpointing: true
deepspeed: zero2.json
"""
ZERO = {
    "train_micro_batch_size_per_gpu": "auto",
    "bf16": {"enabled": "auto"},
    "fp16": {"enabled": "auto"},
    "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sft.yaml").write_text(AXOLOTL)
    (tmp_path / "zero2.json").write_text(json.dumps(ZERO))
    return tmp_path


def values(made: Preview) -> dict[str, tuple[str, str]]:
    assert made.program is not None
    return {row.name: (row.value, row.source) for row in made.program.rows}


def test_a_configs_settings_have_their_sources(folder: Path) -> None:
    """Also those of the DeepSpeed file that the config names."""
    assert values(script_preview(folder, "sft.yaml")) == {
        "Model": ("./llama", "base_model in sft.yaml"),
        "Strategy": (
            "DeepSpeed ZeRO, stage 2, optimizer in host memory",
            "deepspeed in sft.yaml; zero_optimization.stage in zero2.json",
        ),
        "World size": ("", ""),
        "Batch": (
            "micro-batch 2 × accumulation 4 × 2 ranks = 16 per step",
            "micro_batch_size, gradient_accumulation_steps in sft.yaml",
        ),
        "Sequence length": ("2048", "sequence_len in sft.yaml"),
        "Precision": ("bf16", "bf16 in sft.yaml"),
        "Weights": ("", ""),
        "Activation checkpointing": ("on", "gradient_checkpointing in sft.yaml"),
        "Optimizer": ("adamw_bnb_8bit", "optimizer in sft.yaml"),
        "LoRA": (
            "rank 16, q_proj v_proj, weights in 4 bit",
            "adapter, lora_r, lora_target_modules, load_in_4bit in sft.yaml",
        ),
    }


@pytest.mark.parametrize(
    ("arguments", "strategy"),
    [
        ("--per_device_train_batch_size 2", ("DDP", "the trainer's default: no FSDP, no DeepSpeed")),
        ("--lr 0.1 --max_length 8", ("", "")),
        ("--per_device_train_batch_size 2 --fsdp full_shard auto_wrap", ("FSDP, full shard", "--fsdp")),
        ("--fsdp shard_grad_op", ("FSDP, gradients and optimizer state", "--fsdp")),
        ("--fsdp hybrid_shard --lr 1", ("FSDP, hybrid", "--fsdp")),
        ("--trainer.strategy deepspeed_stage_3_offload", ("DeepSpeed ZeRO, stage 3", "--trainer.strategy")),
        ("--trainer.strategy=ddp_spawn", ("DDP", "--trainer.strategy")),
        (
            "--parallelism.data_parallel_shard_degree 2",
            ("FSDP, full shard", "--parallelism.data_parallel_shard_degree"),
        ),
    ],
)
def test_the_strategy_is_the_programs_own(tmp_path: Path, arguments: str, strategy: tuple[str, str]) -> None:
    assert values(script_preview(tmp_path, *arguments.split()))["Strategy"] == strategy


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        ("--gradient_checkpointing false", "Activation checkpointing", "off"),
        ("--activation_checkpointing", "Activation checkpointing", "on"),
        ("--activation_checkpoint.mode selective", "Activation checkpointing", "on"),
        ("--lr 1 --bf16 false", "Precision", "fp32"),
        ("--mixed_precision no --lr 1", "Precision", "fp32"),
        ("--trainer.precision 16-mixed", "Precision", "fp16"),
        ("--trainer.precision=bf16-true", "Precision", "bf16"),
        ("--precision 160 --bs 1 --lora_r 2", "Precision", ""),
        ("--strategy steps --lora_r 2", "Strategy", ""),
    ],
)
def test_switches_are_read_either_way(tmp_path: Path, arguments: str, name: str, value: str) -> None:
    assert values(script_preview(tmp_path, *arguments.split()))[name][0] == value


def test_variables_of_accelerate_count(tmp_path: Path) -> None:
    env = {"ACCELERATE_USE_FSDP": "true", "FSDP_SHARDING_STRATEGY": "HYBRID_SHARD"}
    made = script_preview(tmp_path, "--bf16", run={"env": {**env, "ACCELERATE_MIXED_PRECISION": "fp16"}})
    assert values(made)["Strategy"] == ("FSDP, hybrid", "ACCELERATE_USE_FSDP, FSDP_SHARDING_STRATEGY")
    assert made.program is not None
    assert [each.what for each in made.program.contradictions] == [
        "both bf16 (--bf16) and fp16 (ACCELERATE_MIXED_PRECISION) are on"
    ]


def test_a_program_that_starts_its_own_ranks_has_its_own_world_size(tmp_path: Path) -> None:
    """The plan has one process, and nothing contradicts that."""
    arguments = ("--num_processes", "8", "--per_device_train_batch_size", "2")
    made = script_preview(tmp_path, *arguments, run={"launcher": "python"})
    assert values(made)["World size"] == ("8", "--num_processes")
    assert values(made)["Batch"][0] == "micro-batch 2 × 8 ranks = 16 per step"
    assert made.program is not None
    assert not made.program.contradictions


def test_arguments_that_say_nothing_have_no_section(tmp_path: Path) -> None:
    assert script_preview(tmp_path, "--lr", "0.1").program is None
    assert document(script_preview(tmp_path))["program"] is None
    assert preview().program is None


def test_the_terminal_shows_values_with_sources_and_warns(folder: Path) -> None:
    made = script_preview(folder, "sft.yaml", "--num_processes", "8", "--fsdp", "full_shard")
    file = io.StringIO()
    print_preview(made, Console(file=file, width=100, highlight=False))
    text = file.getvalue()
    assert "What the program's own arguments say\n  Model " in text
    assert "  Precision                 bf16  bf16 in sft.yaml\n" in text
    assert "  not given: weights\n" in text
    assert "warning --num_processes is 8, and this plan has 2 ranks: make them equal" in text
    assert "warning both DeepSpeed (deepspeed in sft.yaml) and FSDP (--fsdp) are set" in text


def test_the_document_marks_what_is_unknown(tmp_path: Path) -> None:
    found = document(script_preview(tmp_path, "--bf16", "--num_machines=2"))["program"]
    assert found["settings"][0] == {"name": "Model", "value": None, "source": None}
    assert {"name": "Precision", "value": "bf16", "source": "--bf16"} in found["settings"]
    assert found["contradictions"] == [
        {
            "what": "--num_machines is 2, and this plan has 1 node",
            "fix": "make them equal; torchrun's number of ranks is the plan's",
        }
    ]
    assert {"name": "LoRA", "value": None, "source": None} in found["settings"]


def test_what_is_added_to_the_ranks_is_named(tmp_path: Path) -> None:
    """Each trainer with callbacks, the heartbeat and its signal; nothing if it is turned off."""
    (note,) = (note for note in script_preview(tmp_path).notes if "telemetry.inside" in note)
    for name in (hugging_face.NAME, lightning.NAME, accelerate_loop.NAME, deepspeed.NAME, torchtitan.NAME):
        assert name.lower() in note.lower()
    assert "save and end the program" in note
    assert (
        f"heartbeat, and faulthandler writes stacks at a crash or the signal {named(STACK_SIGNAL)};" in note
    )
    off = script_preview(tmp_path, telemetry={"inside": False})
    assert not any("heartbeat" in note for note in off.notes)


def named(number: int) -> str:
    return f"SIGRTMIN+{number - signal.SIGRTMIN}"
