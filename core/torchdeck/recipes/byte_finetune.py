"""Recipe byte-finetune: a byte-gpt learns to answer prompts, texts of any length laid out by a batch plan.

A sample is read as prompt and response, byte after byte. Each byte of the response is a target, and so is the
byte 0 that ends it. The first byte is not a target if there is no prompt to predict it from. The loss is the
mean over the targets. Rows hold one sample, or several that do not see each other, as the plan says. Without
a plan each sample has a row, as long as the longest of the microbatch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

from torchdeck.recipes import byte_gpt
from torchdeck.recipes.byte_gpt import blocks
from torchdeck.recipes.prompt_pairs import CONTEXT, Pair, Pairs, data_options, read_pairs

if TYPE_CHECKING:
    from torchdeck.data.step_order import Layout


__all__ = ["ResponseBytes", "blocks", "build_data", "build_model", "collate", "data_options", "loss"]

END = 0
"""Byte that ends a response."""
IGNORED = -100
"""Target of bytes that are not learned."""

Sample = tuple[Tensor, Tensor]
"""Input bytes and the target after each, or IGNORED; both int64, shape (length,)."""


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
        return sample_of(self._pairs.samples[index], self._pairs.context)


def sample_of(pair: Pair, context: int) -> Sample:
    """Return the input bytes and the targets of a prompt and its response."""
    whole = np.frombuffer(pair.prompt + pair.response + bytes([END]), dtype=np.uint8).astype(np.int64)
    tokens, targets = torch.from_numpy(whole[:-1]), torch.from_numpy(whole[1:].copy())
    # the target after the prompt's last byte is the response's first
    targets[: max(0, len(pair.prompt) - 1)] = IGNORED
    return tokens[:context], targets[:context]


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


def collate(samples: Sequence[Sample], layout: Layout | None = None) -> dict[str, Any]:
    """Arrange samples in rows according to the layout.

    Returns:
        `tokens`, `targets` and `positions` (of each byte in its sample), int64 of shape (rows, length),
        filled up with END, IGNORED and 0; if a row has several samples `mask`, bool of shape (rows, 1,
        length, length), whether a byte may be seen from another; and `learnt`, the number of targets that
        count.
    """
    sizes = [1] * len(samples) if layout is None or layout.row_sizes is None else list(layout.row_sizes)
    length = max(len(tokens) for tokens, _ in samples) if layout is None else layout.max_len
    tokens = torch.full((len(sizes), max(1, length)), END)
    targets, positions, owners = torch.full_like(tokens, IGNORED), tokens.clone(), tokens.clone()
    left = iter(samples)
    for row, size in enumerate(sizes):
        start = 0
        for owner in range(1, size + 1):
            read, learnt = next(left)
            end = min(start + len(read), tokens.shape[1])
            tokens[row, start:end] = read[: end - start]
            targets[row, start:end] = learnt[: end - start]
            positions[row, start:end] = torch.arange(end - start)
            owners[row, start:end] = owner
            start = end
    batch = {"tokens": tokens, "targets": targets, "positions": positions}
    if max(sizes) > 1:
        batch["mask"] = _within_samples(owners)
    return {**batch, "learnt": int((targets != IGNORED).sum())}


def loss(model: nn.Module, batch: dict[str, Any]) -> tuple[Tensor, int]:
    """Return the mean cross entropy in nats per byte of the responses, and the number of those bytes."""
    logits = model(batch["tokens"], batch["positions"], batch.get("mask"))
    total = functional.cross_entropy(
        logits.flatten(0, 1), batch["targets"].flatten(), ignore_index=IGNORED, reduction="sum"
    )
    # a microbatch may be prompts alone, cut before their responses: its weight is 0
    return total / max(1, batch["learnt"]), batch["learnt"]


def _within_samples(owners: Tensor) -> Tensor:
    """Return where each byte sees itself and the earlier bytes of its sample; owners have shape (rows,
    length).
    """
    same = owners[:, :, None] == owners[:, None, :]
    return same.tril().unsqueeze(1)
