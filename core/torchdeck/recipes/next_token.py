"""Data and loss shared by all recipes that predict the next byte or token of a text."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from torchdeck.recipes.text_bytes import BYTES, ByteWindows, build_windows
from torchdeck.recipes.text_files import STDLIB
from torchdeck.recipes.token_file import TokenWindows, build_token_windows

CONTEXT = 128
"""Default length of a sample if [model] does not set it."""


def data_options(model: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """Return the [data] table with the model's sample length and vocabulary."""
    return {"context": model.get("context", CONTEXT), "vocabulary": model.get("vocabulary", BYTES), **data}


def build_data(options: dict[str, Any], split: str) -> ByteWindows | TokenWindows | None:
    """Build windows of a text (source, max_bytes) or of a file of tokens (tokens, token_dtype); both use
    heldout.

    Raises:
        RecipeError: there is no such text or file, or it is too short.
    """
    context, heldout = options["context"], options.get("heldout", 0.05)
    tokens = options.get("tokens")
    if tokens is None:
        source, most = options.get("source", STDLIB), options.get("max_bytes")
        return build_windows(source, split, context=context, heldout=heldout, max_bytes=most)
    dtype, vocabulary = options.get("token_dtype", "uint16"), options.get("vocabulary", BYTES)
    return build_token_windows(
        tokens, split, context=context, vocabulary=vocabulary, dtype=dtype, heldout=heldout
    )


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
    """Return the mean cross entropy in nats per byte or token, and their number."""
    tokens, targets = batch
    logits = model(tokens)
    mean = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    return mean, targets.numel()
