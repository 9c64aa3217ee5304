"""Options of the built-in recipe byte-finetune: a byte-gpt that learns to answer prompts."""

from __future__ import annotations

from torchdeck.options import Section, option
from torchdeck.recipes.options.byte_gpt import ByteGptModel
from torchdeck.recipes.options.text import heldout_option, workers_option


class ByteFinetuneModel(ByteGptModel):
    """The [model] table of recipe byte-finetune: that of byte-gpt, with longer samples."""

    context: int = option(
        "Longest sample; longer ones are cut at the end.",
        label="Context length",
        default=256,
        unit="tokens",
        ge=1,
        le=1_048_576,
    )


class PairsData(Section):
    """The [data] table of recipe byte-finetune: prompts and responses."""

    source: str = option(
        "Samples: .jsonl with prompt and response, or with text; a text file with one sample per "
        'line; or "stdlib": the functions of Python\'s own standard library, with their docstrings '
        "as prompts.",
        label="Training data",
        default="stdlib",
        path=True,
        min_length=1,
        right='"stdlib", or the path of a .jsonl or text file',
    )
    heldout: float = heldout_option(0.05)
    max_samples: int | None = option(
        "Use at most this many samples. Default: all.",
        label="Maximum samples",
        default=None,
        unit="samples",
        ge=1,
    )
    workers: int = workers_option()
