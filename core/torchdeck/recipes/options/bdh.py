"""Options of the built-in recipe bdh: the Dragon Hatchling (arXiv 2509.26507)."""

from __future__ import annotations

from torchdeck.options import Section, option
from torchdeck.recipes.options.initial_weights import init_from_option, init_names_option, init_new_option


class BdhModel(Section):
    """The [model] table of recipe bdh: BDH-GPU, whose layers share their weights."""

    layers: int = option(
        "Rounds of attention and neurons; all share the same weights.", default=4, ge=1, le=1024
    )
    heads: int = option("Attention heads; neurons are divided evenly among them.", default=4, ge=1, le=1024)
    width: int = option(
        "Size d of the vector that is passed from layer to layer.", default=64, ge=1, le=65_536
    )
    neurons: int = option(
        "Number n of neurons of all heads. The model has 3·n·d weights in addition to embedding and readout.",
        default=1024,
        unit="neurons",
        ge=2,
        le=16_777_216,
    )
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
    dropout: float = option("Fraction of the neurons' outputs dropped in training.", default=0.0, ge=0, lt=1)
    init_from: str | None = init_from_option()
    init_names: dict[str, str] = init_names_option()
    init_new: list[str] = init_new_option()
