"""Memory of a program's ranks from its arguments and a config.json: settings, range, suggestions, sources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.values.previews import script_preview
from torchdeck.plan.hugging_face.program_model import program_models
from torchdeck.plan.memory.optimizers import flat_bytes, known_optimizer, state_bytes
from torchdeck.plan.preview import Preview
from torchdeck.plan.preview.preview import placement_line
from torchdeck.plan.preview.preview_json import document
from torchdeck.trainers.arguments import Named
from torchdeck.trainers.program_settings import program_settings

GIB = 2**30
LLAMA_8B: dict[str, Any] = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "max_position_embeddings": 131072, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
PARAMETERS = 8_030_261_248
SFT = "--model_name_or_path llama --per_device_train_batch_size 1 --max_length 512 --bf16"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "llama").mkdir()
    (tmp_path / "llama" / "config.json").write_text(json.dumps(LLAMA_8B))
    return tmp_path


def shown(folder: Path, arguments: str, gpus: int = 8, **tables: Any) -> Preview:
    return script_preview(folder, *arguments.split(), gpus=gpus, **tables)


def state(made: Preview) -> dict[str, int]:
    assert made.memory is not None
    return dict(made.memory.decisive.state)


def test_full_training_keeps_four_numbers_per_parameter(folder: Path) -> None:
    """In fp32 as asked for, however the file has the weights."""
    made = shown(folder, f"{SFT} --torch_dtype float32")
    assert state(made)["parameters"] == 4 * PARAMETERS
    assert state(made)["gradients"] == 4 * PARAMETERS
    assert state(made)["optimizer"] == 8 * PARAMETERS + 4 * 291
    assert made.memory is not None
    assert made.memory.verdict == "does not fit"
    assert placement_line(made) == "8 ranks on n0000, ddp by its own arguments over nccl"


@pytest.mark.parametrize(
    ("arguments", "kind", "bytes_per_parameter"),
    [
        ("--fsdp full_shard", "fsdp", (4 + 4 + 8) / 8),
        ("--fsdp shard_grad_op", "fsdp", (4 + 4 + 8) / 8),
        ("--deepspeed z1.json", "zero1", 2 + 12 / 8),
        ("--deepspeed z3.json", "zero3", (2 + 2 + 12) / 8),
    ],
)
def test_sharded_state_is_divided(
    folder: Path, arguments: str, kind: str, bytes_per_parameter: float
) -> None:
    """By the program's own strategy, not by that of the plan; gradients of stage 1 pass in the step."""
    for stage in (1, 3):
        text = json.dumps({"zero_optimization": {"stage": stage}, "bf16": {"enabled": True}})
        (folder / f"z{stage}.json").write_text(text)
    made = shown(folder, f"{SFT} {arguments}")
    assert made.spec is not None
    assert made.spec.kind == kind
    kept = state(made)
    total = kept["parameters"] + kept["optimizer"] + (0 if kind == "zero1" else kept["gradients"])
    assert total == pytest.approx(bytes_per_parameter * PARAMETERS, rel=0.01)


def test_lora_trains_adapters_alone(folder: Path) -> None:
    """Rank 16 on queries and values: 32 blocks of 16 · (4096 + 4096 + 4096 + 1024) in fp32."""
    made = shown(folder, f"{SFT} --use_peft --lora_r 16 --dtype bfloat16")
    adapters = 32 * 16 * (4096 + 4096 + 4096 + 1024)
    assert state(made)["gradients"] == 4 * adapters
    assert state(made)["optimizer"] == 8 * adapters + 4 * 128
    assert state(made)["parameters"] == 2 * PARAMETERS + 4 * adapters
    quantized = state(shown(folder, f"{SFT} --use_peft --lora_r 16 --load_in_4bit"))
    outside = 2 * 128256 * 4096
    assert quantized["parameters"] == pytest.approx(2 * outside + (PARAMETERS - outside) * 0.5625, rel=0.02)


def test_a_quantized_matrix_is_copied_while_it_is_used(folder: Path) -> None:
    """The largest one in 16 bit is in the upper bound."""
    values = json.loads((folder / "llama" / "config.json").read_bytes())
    given = {"per_device_train_batch_size": "1", "max_length": "64", "bf16": "true", "load_in_4bit": "true"}
    named = [(name, Named(value, f"--{name}")) for name, value in {**given, "use_peft": "true"}.items()]
    (model,) = program_models(values, program_settings(named), "config.json", trl=False)
    assert model.dequantized == 14336 * 4096 * 2


def test_eight_bit_moments_follow_the_formula(folder: Path) -> None:
    made = shown(folder, f"{SFT} --torch_dtype float32 --optim adamw_bnb_8bit")
    embedding = 128256 * 4096
    vectors = 65 * 4096  # norms have at least 4096 elements
    matrices = PARAMETERS - embedding - vectors
    eight = 2 * (matrices + vectors) + 2 * 4 * (matrices + vectors) // 256
    assert state(made)["optimizer"] == 2 * 4 * embedding + eight


@pytest.mark.parametrize(
    ("optimizer", "name", "shape", "expected"),
    [
        ("adamw_8bit", "blocks.0.mlp.up.weight", (64, 128), 2 * (64 * 128 + 4 * 32)),
        ("adamw_8bit", "blocks.0.mlp_norm.weight", (64,), 2 * 4 * 64),
        ("adamw_8bit", "embedding.weight", (500, 128), 2 * 4 * 500 * 128),
        ("lion_8bit", "blocks.0.mlp.up.weight", (64, 128), 64 * 128 + 4 * 32),
        ("adafactor", "blocks.0.mlp.up.weight", (64, 128), 4 * (64 + 128)),
        ("adafactor", "blocks.0.mlp_norm.weight", (64,), 4 * 64),
        ("lion", "blocks.0.mlp.up.weight", (64, 128), 4 * 64 * 128 + 4),
        ("adamw_8bit", "blocks.0.mlp.up.weight", (0, 128), 0),
    ],
)
def test_state_of_optimizers(optimizer: str, name: str, shape: tuple[int, ...], expected: int) -> None:
    assert state_bytes(optimizer, name, shape, "float32") == expected


def test_flat_state_and_names_of_optimizers() -> None:
    assert [flat_bytes(name, 0.0, 512) for name in ("adamw", "sgd", "adamw_8bit")] == [4096, 0, 1040]
    assert flat_bytes("sgd", 0.9, 512) == 2048
    assert [known_optimizer(name) for name in ("adamw_torch_fused", "paged_adamw_8bit", "Adafactor")] == [
        *("adamw", "adamw_8bit", "adafactor"),
    ]
    assert known_optimizer("muon") is None


def test_an_unknown_type_of_weights_gives_a_range(folder: Path) -> None:
    """From bf16, as transformers 5 loads this file, to fp32."""
    made = shown(folder, SFT)
    small, large = shown(folder, f"{SFT} --torch_dtype auto"), shown(folder, f"{SFT} --dtype float32")
    groups = [each.memory.decisive for each in (made, small, large) if each.memory is not None]
    assert groups[0].low_bytes == groups[1].low_bytes < groups[1].peak_bytes == groups[0].peak_bytes
    assert groups[0].high_bytes == groups[2].high_bytes > groups[1].high_bytes
    assert any("covers weights loaded in bf16" in note and "fp32" in note for note in made.notes)
    assert not any("covers weights" in note for note in large.notes)


def test_suggestions_have_the_programs_own_names(folder: Path) -> None:
    arguments = "--model_name_or_path llama --per_device_train_batch_size 4 --max_length 4096 --bf16"
    made = shown(folder, f"{arguments} --fsdp full_shard")
    assert made.memory is not None
    sentences = [each.sentence for each in made.memory.suggestions]
    assert sentences[0].startswith(
        "--per_device_train_batch_size 2, --gradient_accumulation_steps 2: "
    ) or sentences[0].startswith("--per_device_train_batch_size 1, --gradient_accumulation_steps 4: ")
    assert any(text.startswith("--gradient_checkpointing true: ") for text in sentences)
    found = document(made)["memory"]
    assert {"--gradient_checkpointing": "true"} in [each["change"] for each in found["suggestions"]]
    text = "base_model: llama\nmicro_batch_size: 4\nsequence_len: 4096\nbf16: true\nfsdp:\n  - full_shard\n"
    (folder / "sft.yaml").write_text(text)
    made = shown(folder, "sft.yaml")
    assert made.memory is not None
    assert any(each.sentence.startswith("micro_batch_size: ") for each in made.memory.suggestions)


def test_defaults_of_the_trainer_are_named(folder: Path) -> None:
    """TRL's are others than those of the Hugging Face Trainer."""
    plain = shown(folder, "--model_name_or_path llama --per_device_train_batch_size 1")
    (folder / "train.py").write_text("from trl import SFTTrainer\n")
    trl = shown(folder, "--model_name_or_path llama --per_device_train_batch_size 1")

    def assumed(made: Preview) -> str:
        return next(note.partition("assumed: ")[2] for note in made.notes if "so assumed" in note)

    assert assumed(plain) == "AdamW, sequences of 1,024 tokens"
    assert assumed(trl) == (
        "bf16 (TRL's default), activation checkpointing (TRL's default), AdamW, "
        "sequences of 1,024 tokens (TRL)"
    )
    assert trl.spec is not None
    assert trl.spec.checkpointing


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("--model_name_or_path llama --lr 1", "the program's arguments name no strategy"),
        (f"{SFT} --optim muon", "the state of the optimizer muon is not known"),
        (f"{SFT} --deepspeed other.json", "the stage of ZeRO is not known"),
    ],
)
def test_what_is_not_known_is_not_predicted(folder: Path, arguments: str, why: str) -> None:
    made = shown(folder, arguments)
    assert made.memory is None
    assert any(note.startswith("memory is not predicted from llama/config.json: ") for note in made.notes)
    assert any(why in note for note in made.notes)


def test_models_that_are_not_here_are_not_predicted(folder: Path) -> None:
    """Nor anything else said about them; [estimate] still works, and wins."""
    assert shown(folder, SFT.replace("llama", "meta-llama/Llama-3")).memory is None
    assert shown(folder, SFT, limits={"memory": "off"}).memory is None
    assert shown(folder, SFT, run={"launcher": "python"}).memory is None
    (folder / "llama" / "config.json").write_text("[]")
    made = shown(folder, SFT)
    assert made.memory is None
    assert any("it holds no object" in note for note in made.notes)


def test_a_model_of_the_hub_is_found_in_the_cache(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "hub"
    revision = "0123456789" * 4
    snapshot = cache / "models--org--small" / "snapshots" / revision
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").symlink_to(folder / "llama" / "config.json")
    (cache / "models--org--small" / "refs").mkdir()
    (cache / "models--org--small" / "refs" / "main").write_text(revision)
    made = shown(folder, SFT.replace("llama", "org/small"), run={"env": {"HF_HUB_CACHE": str(cache)}})
    assert made.memory is not None
    assert state(made)["parameters"] in (2 * PARAMETERS, 4 * PARAMETERS)
