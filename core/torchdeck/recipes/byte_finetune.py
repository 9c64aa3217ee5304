"""Recipe byte-finetune: a byte-gpt learns to answer prompts, texts of any length laid out by a batch plan.

A sample is read as prompt and response, byte after byte. Each byte of the response is a target, and so is the
byte 0 that ends it. The first byte is not a target if there is no prompt to predict it from. The loss is the
mean over the targets. Rows hold one sample, or several that do not see each other, as the plan says. Without
a plan each sample has a row, as long as the longest of the microbatch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.utils.data import Dataset

from torchdeck.recipes import byte_gpt
from torchdeck.recipes.byte_gpt import blocks
from torchdeck.recipes.prompt_pairs import CONTEXT, Pair, Pairs, data_options, read_pairs
from torchdeck.recipes.responses import Sample, collate, mean_loss, sample_of

__all__ = ["ResponseBytes", "blocks", "build_data", "build_model", "collate", "data_options", "loss"]

END = 0
"""Byte that ends a response."""


class ResponseBytes(Dataset[Sample]):
    """Samples of up to `context` bytes; longer ones are truncated at the end."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs

    @property
    def fingerprint(self) -> str:
        """Fingerprint as in a batch plan of this data."""
        return self._pairs.fingerprint

    def __len__(self) -> int:
        return len(self._pairs.samples)

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} is out of range: there are {len(self)}")
        return byte_sample(self._pairs.samples[index], self._pairs.context)


def byte_sample(pair: Pair, context: int) -> Sample:
    """Return the input bytes and the targets of a prompt and its response."""
    whole = np.frombuffer(pair.prompt + pair.response + bytes([END]), dtype=np.uint8).astype(np.int64)
    return sample_of(whole, len(pair.prompt), context)


def build_model(options: dict[str, Any]) -> byte_gpt.ByteGpt:
    """Build the model of a [model] table: that of byte-gpt.

    Raises:
        RecipeError: the sizes are inconsistent.
    """
    return byte_gpt.build_model({"context": CONTEXT, **options})


def build_data(options: dict[str, Any], split: str) -> ResponseBytes | None:
    """Build the samples read by `read_pairs`; None if nothing is held out.

    Raises:
        RecipeError: they cannot be read.
    """
    pairs = read_pairs(options, split)
    return None if pairs is None else ResponseBytes(pairs)


def loss(model: nn.Module, batch: dict[str, Any]) -> tuple[Tensor, int]:
    """Return the mean cross entropy in nats per byte of the responses, and the number of those bytes."""
    return mean_loss(model(batch["tokens"], batch["positions"], batch.get("mask")), batch)
