"""Parameters counted from a config.json, against the counts published for these models."""

from __future__ import annotations

from typing import Any

import pytest

from torchdeck.plan.memory.shape_derivation import UnknownModelError, shape_from_config

LLAMA_2_7B: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000,
    "max_position_embeddings": 4096, "tie_word_embeddings": False,
}  # fmt: skip
LLAMA_3_8B = LLAMA_2_7B | {
    "intermediate_size": 14336, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 8192,
}  # fmt: skip
MISTRAL_7B = LLAMA_2_7B | {
    "model_type": "mistral", "intermediate_size": 14336, "num_key_value_heads": 8,
    "max_position_embeddings": 32768, "sliding_window": 4096,
}  # fmt: skip
GPT_2 = {
    "model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257,
    "n_positions": 1024, "n_ctx": 1024,
}  # fmt: skip
QWEN_2_5_HALF_B = {
    "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
    "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936,
    "max_position_embeddings": 32768, "tie_word_embeddings": True,
}  # fmt: skip
QWEN_3_SMALL = {
    "model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
    "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
    "max_position_embeddings": 40960, "tie_word_embeddings": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("values", "published"),
    [
        (LLAMA_2_7B, 6_738_415_616),
        (LLAMA_3_8B, 8_030_261_248),
        (MISTRAL_7B, 7_241_732_096),
        (GPT_2, 124_439_808),
        (GPT_2 | {"n_embd": 1600, "n_layer": 48, "n_head": 25}, 1_557_611_200),
        (QWEN_2_5_HALF_B, 494_032_768),
        (QWEN_3_SMALL, 596_049_920),
    ],
)
def test_published_counts(values: dict[str, Any], published: int) -> None:
    """To the parameter."""
    assert shape_from_config(values).parameters == published


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"model_type": "mamba"}, "model_type 'mamba' is not known"),
        ({"model_type": None}, "model_type None is not known"),
        ({"num_local_experts": 8}, "experts"),
        ({"hidden_size": None}, "has no hidden_size"),
        ({"hidden_size": 4096.0}, "hidden_size is 4096.0"),
        ({"hidden_size": True}, "hidden_size is True"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"num_attention_heads": 33}, "33 heads do not divide"),
        ({"num_key_value_heads": 5}, "32 heads cannot share 5"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings is 'no'"),
    ],
)
def test_what_is_not_understood_is_refused(changed: dict[str, Any], said: str) -> None:
    """Another architecture, and numbers that are none: one sentence each."""
    with pytest.raises(UnknownModelError, match=said):
        shape_from_config(LLAMA_2_7B | changed)
