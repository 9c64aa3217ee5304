"""Options of the built-in recipe byte-gpt: a small GPT over bytes or tokens."""

from __future__ import annotations

from torchdeck.options import Section, option
from torchdeck.recipes.options.initial_weights import init_from_option, init_names_option, init_new_option


class ByteGptModel(Section):
    """The [model] table of recipe byte-gpt: a decoder-only transformer over bytes or tokens."""

    layers: int = option("Transformer blocks.", default=4, ge=1, le=1024)
    heads: int = option(
        "Attention heads per block; width is divided evenly among them.", default=4, ge=1, le=1024
    )
    width: int = option("Size of the hidden state.", default=128, ge=1, le=65_536)
    context: int = option(
        "Tokens per sample.", label="Context length", default=128, unit="tokens", ge=1, le=1_048_576
    )
    vocabulary: int = option(
        "Vocabulary size: 256 for text, which is read as bytes; more for data.tokens.",
        default=256,
        unit="tokens",
        ge=2,
        le=16_777_216,
    )
    dropout: float = option("Fraction of activations dropped in training.", default=0.0, ge=0, lt=1)
    init_from: str | None = init_from_option()
    init_names: dict[str, str] = init_names_option()
    init_new: list[str] = init_new_option()
