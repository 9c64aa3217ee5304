"""Options of the built-in recipe bdh: the Dragon Hatchling (arXiv 2509.26507)."""

from __future__ import annotations

from torchdeck.config.fields import Section, option


class BdhModel(Section):
    """The [model] table of recipe bdh: BDH-GPU, whose layers share their weights."""

    layers: int = option(
        "Rounds of attention and neurons; all use the same weights.", default=4, ge=1, le=1024
    )
    heads: int = option(
        "Heads of the attention; neurons are divided evenly among them.", default=4, ge=1, le=1024
    )
    width: int = option("Size of the vector that passes from layer to layer, d.", default=64, ge=1, le=65_536)
    neurons: int = option(
        "Neurons of all heads together, n: the model has 3·n·d weights besides embedding and readout.",
        default=1024,
        unit="neurons",
        ge=2,
        le=16_777_216,
    )
    context: int = option("Length of a sample.", default=128, unit="tokens", ge=1, le=1_048_576)
    vocabulary: int = option(
        "Tokens there are: 256 for text, which is read as bytes; more for data.tokens.",
        default=256,
        unit="tokens",
        ge=2,
        le=16_777_216,
    )
    dropout: float = option("Fraction of the neurons' outputs dropped in training.", default=0.0, ge=0, lt=1)
