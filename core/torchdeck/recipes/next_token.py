"""What all recipes share that predict the next byte or token of a text: data, and loss."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from torchdeck.recipes.text_bytes import BYTES, ByteWindows, build_windows
from torchdeck.recipes.text_files import STDLIB
from torchdeck.recipes.token_file import TokenWindows, build_token_windows

CONTEXT = 128
"""Length of a sample where [model] does not say."""


def data_options(model: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """The [data] table with the length of a sample and the vocabulary, which are the model's."""
    return {"context": model.get("context", CONTEXT), "vocabulary": model.get("vocabulary", BYTES), **data}


def build_data(options: dict[str, Any], split: str) -> ByteWindows | TokenWindows | None:
    """Windows of a text (source, max_bytes) or of a file of tokens (tokens, token_dtype); both by heldout.

    Raises:
        RecipeError: there is no such text or file, or too little in it.
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
    """Mean cross entropy in nats a byte or token, and the number of these."""
    tokens, targets = batch
    logits = model(tokens)
    mean = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    return mean, targets.numel()
