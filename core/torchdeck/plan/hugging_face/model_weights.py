"""Weights of a model by its Hugging Face config.json: every tensor's shape, without the model.

Keys and their defaults are those of transformers' config classes; shapes are those of its model classes,
which tests compare for each family. Experts are stored as transformers 5 stores them: one tensor for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from torchdeck.plan.hugging_face.config_keys import Values
from torchdeck.plan.hugging_face.llama_weights import (
    FOUR_NORMS,
    Llama,
    llama,
)
from torchdeck.plan.hugging_face.plain_weights import encoder, gpt2, gpt_neox, opt, phi
from torchdeck.plan.memory.model_shape import ModelWeights
from torchdeck.plan.memory.shape_derivation import UnknownModelError

MOST_LAYERS = 1000
"""More would take seconds, for each edit of a run file."""
MOST_PARAMETERS = 10**14
_LAYERS = ("num_hidden_layers", "n_layer")


def model_weights(values: Values) -> ModelWeights:
    """Return the weights of the model that a parsed config.json describes.

    Raises:
        UnknownModelError: another architecture, or a number is missing or invalid.
    """
    kind = values.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise UnknownModelError(f"model_type {kind!r} is unknown; known: {', '.join(sorted(FAMILIES))}")
    layers = max((value for name in _LAYERS if isinstance(value := values.get(name), int)), default=0)
    if layers > MOST_LAYERS:
        raise UnknownModelError(f"{layers} layers are above the limit of {MOST_LAYERS}")
    try:
        found = FAMILIES[kind](values)
    except ValueError as error:
        raise UnknownModelError(str(error)) from error
    if found.parameters > MOST_PARAMETERS:
        raise UnknownModelError(f"{found.parameters:,} parameters are above the limit")
    return found


_GEMMA = Llama(tied=True, head_size=256)
FAMILIES: Mapping[str, Callable[[Values], ModelWeights]] = {
    "llama": llama(Llama()),
    "mistral": llama(Llama(kv_heads=8)),
    "qwen2": llama(Llama(qkv_bias=True)),
    "qwen3": llama(Llama(head_size=128, head_norms="head")),
    "smollm3": llama(Llama(tied=True, kv_heads=4)),
    "granite": llama(Llama()),
    "olmo2": llama(Llama(head_norms="whole")),
    "gemma": llama(_GEMMA),
    "gemma2": llama(replace(_GEMMA, norms=FOUR_NORMS)),
    "gemma3_text": llama(replace(_GEMMA, norms=FOUR_NORMS, head_norms="head")),
    "phi3": llama(Llama(fused=True)),
    "starcoder2": llama(
        Llama(tied=True, kv_heads=2, biases="use_bias", bias_default=True, layer_norm=True, gated=False)
    ),
    "stablelm": llama(Llama(layer_norm=True)),
    "cohere": llama(Llama(tied=True, layer_norm=True, norm_bias=False, norms=("attention_norm",))),
    "mixtral": llama(Llama(kv_heads=8)),
    "qwen2_moe": llama(Llama(qkv_bias=True)),
    "qwen3_moe": llama(Llama(head_norms="head")),
    "phi": phi,
    "gpt2": gpt2,
    "gpt_neox": gpt_neox,
    "opt": opt,
    "bert": encoder,
    "roberta": encoder,
}
"""Known values of `model_type`."""
