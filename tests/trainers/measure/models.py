"""Tiny models of transformers, and their configs as config.json has them."""

from __future__ import annotations

import json
from typing import Any

from transformers import CONFIG_MAPPING

PLAIN: dict[str, Any] = {
    "vocab_size": 500, "hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 6,
    "intermediate_size": 160, "max_position_embeddings": 128, "bos_token_id": 1, "eos_token_id": 2,
    "pad_token_id": 0,
}  # fmt: skip
GROUPED = {**PLAIN, "num_key_value_heads": 2, "head_dim": 16}
TINY: dict[str, dict[str, Any]] = {
    "gpt2": {
        "vocab_size": 500, "n_embd": 96, "n_layer": 3, "n_head": 6, "n_positions": 128, "bos_token_id": 1,
        "eos_token_id": 2, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
    },
    "opt": {
        **{name: value for name, value in PLAIN.items() if name != "intermediate_size"},
        "ffn_dim": 200, "word_embed_proj_dim": 64, "dropout": 0.0,
    },
    "gpt_neox": PLAIN,
    "phi": PLAIN,
    "bert": PLAIN,
    "roberta": PLAIN,
    "llama": {**GROUPED, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
    "mixtral": {**GROUPED, "num_local_experts": 4},
    "qwen2_moe": {
        **PLAIN, "num_experts": 4, "moe_intermediate_size": 40, "shared_expert_intermediate_size": 56,
        "num_key_value_heads": 3, "mlp_only_layers": [1],
    },
    "qwen3_moe": {**GROUPED, "num_experts": 4, "moe_intermediate_size": 40, "decoder_sparse_step": 2},
}  # fmt: skip


def tiny(family: str) -> Any:
    return CONFIG_MAPPING[family](**TINY.get(family, GROUPED))


def as_file(config: Any, model: Any) -> dict[str, Any]:
    """The config as `save_pretrained` writes it."""
    value: dict[str, Any] = json.loads(config.to_json_string())
    return {**value, "architectures": [type(model).__name__]}
