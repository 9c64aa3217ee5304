"""Options of the built-in recipe byte-gpt: a small GPT over bytes."""

from __future__ import annotations

from torchdeck.config.fields import Section, option


class ByteGptModel(Section):
    """The [model] table of recipe byte-gpt: a decoder-only transformer over 256 byte values."""

    layers: int = option("Transformer blocks.", default=4, ge=1, le=1024)
    heads: int = option(
        "Attention heads of a block; width is divided evenly among them.", default=4, ge=1, le=1024
    )
    width: int = option("Size of the hidden state.", default=128, ge=1, le=65_536)
    context: int = option("Length of a sample.", default=128, unit="bytes", ge=1, le=1_048_576)
    dropout: float = option("Fraction of activations dropped in training.", default=0.0, ge=0, lt=1)


class ByteGptData(Section):
    """The [data] table of recipe byte-gpt: text read as bytes."""

    source: str = option(
        'Text to learn: "stdlib" is the source of Python\'s own standard library; else a file or folder.',
        default="stdlib",
        path=True,
        min_length=1,
        right='"stdlib", or the path of a file or folder',
    )
    heldout: float = option(
        "Fraction of the text that is never trained on, for evaluation.", default=0.05, ge=0, le=0.5
    )
    max_bytes: int | None = option(
        "Use no more than this much text; absent: all.", default=None, unit="bytes", ge=1
    )
