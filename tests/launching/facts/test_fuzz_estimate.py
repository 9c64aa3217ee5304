"""A stranger's config.json of Hugging Face: a profile, or an EstimateError."""

import json
from pathlib import Path
from typing import Any

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from support.fuzz.refusals import refused
from torchdeck.config.loader import config_from_dict
from torchdeck.launching.facts.estimated_profile import estimate_profile
from torchdeck.plan.memory.shape_derivation import EstimateError

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 100,
    "max_position_embeddings": 32,
    "head_dim": 16,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "attention_bias": False,
}
GPT2: dict[str, Any] = {
    "model_type": "gpt2",
    "n_embd": 64,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 32,
    "vocab_size": 100,
    "n_inner": None,
    "layer_norm_epsilon": 1e-5,
}
FAMILIES = [{**LLAMA, "model_type": name} for name in ("mistral", "qwen2", "gemma", "mixtral", "deepseek_v3")]


def read_config(content: bytes, place: Path) -> None:
    (place / "config.json").write_bytes(content)
    config = config_from_dict({"run": {"script": "x.py"}, "estimate": {"config": "config.json"}}, place)
    refused(lambda: estimate_profile(config), EstimateError)


def test_any_config_of_a_model() -> None:
    read_all(read_config, hostile.documents(LLAMA, GPT2, *FAMILIES))


def test_a_dtype_that_is_none_is_passed_over(tmp_path: Path) -> None:
    for wrong in ("[]", "{}", "7"):
        read_config(json.dumps({**LLAMA, "torch_dtype": json.loads(wrong)}).encode(), tmp_path)
