"""Options of the built-in recipe byte-finetune: a byte-gpt that learns to answer prompts."""

from __future__ import annotations

from torchdeck.config.fields import Section, option
from torchdeck.config.recipes.byte_gpt import ByteGptModel
from torchdeck.config.recipes.text_data import heldout_option, workers_option


class ByteFinetuneModel(ByteGptModel):
    """The [model] table of recipe byte-finetune: that of byte-gpt, and where its weights come from."""

    context: int = option(
        "Longest sample; longer ones lose their end.", default=256, unit="tokens", ge=1, le=1_048_576
    )
    init_from: str | None = option(
        "Weights to start with: a checkpoint of a byte-gpt of the same sizes, or a .safetensors file; "
        "absent: fresh ones. A run that resumes does not read it.",
        default=None,
        path=True,
        min_length=1,
        right="the folder of a checkpoint, or a .safetensors file",
    )


class PairsData(Section):
    """The [data] table of recipe byte-finetune: prompts and responses."""

    source: str = option(
        'Samples: .jsonl with prompt and response, or text; a text file with one a line; or "stdlib", the '
        "functions of Python's own standard library, their docstrings as prompts.",
        default="stdlib",
        path=True,
        min_length=1,
        right='"stdlib", or the path of a .jsonl or text file',
    )
    heldout: float = heldout_option(0.05)
    max_samples: int | None = option(
        "Use no more samples than this; absent: all.", default=None, unit="samples", ge=1
    )
    workers: int = workers_option()
