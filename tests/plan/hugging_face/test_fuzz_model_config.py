"""A config.json of any content describes a model, or is refused with one error."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.plan.hugging_face.model_weights import FAMILIES, MOST_LAYERS, model_weights
from torchdeck.plan.memory.shape_derivation import UnknownModelError

SOUND: dict[str, Any] = {
    "vocab_size": 100, "hidden_size": 24, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 32, "n_embd": 24, "n_head": 4, "n_layer": 2,
    "n_positions": 32, "ffn_dim": 48,
}  # fmt: skip
KEYS = (
    *SOUND, "num_key_value_heads", "head_dim", "tie_word_embeddings", "num_local_experts", "num_experts",
    "moe_intermediate_size", "shared_expert_intermediate_size", "num_experts_per_tok", "decoder_sparse_step",
    "mlp_only_layers", "architectures", "id2label", "num_labels", "word_embed_proj_dim", "type_vocab_size",
    "hidden_act", "qk_layernorm", "attention_bias", "use_bias",
)  # fmt: skip
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 70), st.just(2**40), st.floats(), st.text(max_size=5),
    st.lists(st.one_of(st.integers(0, 3), st.text(max_size=3)), max_size=3),
    st.just(["XForTokenClassification"]), st.just({"0": "a"}),
)  # fmt: skip


@settings(deadline=None)
@given(
    kind=st.sampled_from(sorted(FAMILIES)), changed=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=5)
)
def test_any_content_is_a_model_or_refused(kind: str, changed: dict[str, Any]) -> None:
    try:
        weights = model_weights({**SOUND, **changed, "model_type": kind})
    except UnknownModelError:
        return
    assert weights.parameters > 0
    assert all(size > 0 for _, shape, _ in weights.named() for size in shape)


@pytest.mark.parametrize("kind", [None, 3, "", "no-such-model", ["llama"]])
def test_other_models_are_refused(kind: Any) -> None:
    with pytest.raises(UnknownModelError, match="is unknown; known: bert, "):
        model_weights({**SOUND, "model_type": kind})


def test_too_many_parameters_are_refused() -> None:
    with pytest.raises(UnknownModelError, match="above the limit"):
        model_weights({**SOUND, "model_type": "llama", "hidden_size": 2**24, "intermediate_size": 2**24})


def test_too_many_layers_are_refused() -> None:
    with pytest.raises(UnknownModelError, match="above the limit of 1000"):
        model_weights({**SOUND, "model_type": "gpt2", "n_layer": MOST_LAYERS + 1})
