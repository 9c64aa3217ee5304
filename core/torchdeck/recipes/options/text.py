"""Options for the data source of built-in recipes that predict the next byte or token."""

from __future__ import annotations

from typing import Any, Literal

from torchdeck.options import Section, option


def heldout_option(default: float) -> Any:
    """Declare `data.heldout`, which all built-in recipes have."""
    return option(
        "Fraction of the data that is held out for evaluation.",
        label="Validation part",
        default=default,
        ge=0,
        le=0.5,
    )


def workers_option() -> Any:
    """Declare `data.workers`, which all recipes have."""
    return option(
        "Data loader processes per rank; 0: the rank loads the data itself.",
        label="Data loader workers",
        default=0,
        ge=0,
        le=1024,
    )


class TextData(Section):
    """The [data] table of recipes that read text as bytes, or a file of tokens."""

    source: str = option(
        'Training text: "stdlib" is the source of Python\'s own standard library; else a file or folder.',
        label="Training data",
        default="stdlib",
        path=True,
        min_length=1,
        right='"stdlib", or the path of a file or folder',
    )
    tokens: str | None = option(
        "File of tokens to train on instead of text, memory-mapped: .npy, or consecutive numbers of "
        "token_dtype.",
        label="Token file",
        default=None,
        path=True,
        min_length=1,
    )
    token_dtype: Literal["uint8", "uint16", "uint32"] = option(
        "Number format of a token file without a header.", label="Token format", default="uint16"
    )
    heldout: float = heldout_option(0.05)
    max_bytes: int | None = option(
        "Use at most this much text. Default: all.", label="Maximum bytes", default=None, unit="bytes", ge=1
    )
    workers: int = workers_option()
