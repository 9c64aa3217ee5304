"""Options of where a built-in recipe that predicts the next byte or token reads these."""

from __future__ import annotations

from typing import Any, Literal

from torchdeck.config.fields import Section, option


def heldout_option(default: float) -> Any:
    """`data.heldout`, which all built-in recipes have."""
    return option(
        "Fraction of the data that is never trained on, for evaluation.", default=default, ge=0, le=0.5
    )


def workers_option() -> Any:
    """`data.workers`, which all recipes have."""
    return option(
        "Processes of each rank that read samples ahead; 0: the rank reads them itself.",
        default=0,
        ge=0,
        le=1024,
    )


class TextData(Section):
    """The [data] table of recipes that read text as bytes, or a file of tokens."""

    source: str = option(
        'Text to learn: "stdlib" is the source of Python\'s own standard library; else a file or folder.',
        default="stdlib",
        path=True,
        min_length=1,
        right='"stdlib", or the path of a file or folder',
    )
    tokens: str | None = option(
        "File of tokens to learn in place of text, mapped into memory: .npy, or numbers of token_dtype one "
        "after the other.",
        default=None,
        path=True,
        min_length=1,
    )
    token_dtype: Literal["uint8", "uint16", "uint32"] = option(
        "What a number in a file of tokens without a header is.", default="uint16"
    )
    heldout: float = heldout_option(0.05)
    max_bytes: int | None = option(
        "Use no more than this much text; absent: all.", default=None, unit="bytes", ge=1
    )
    workers: int = workers_option()
