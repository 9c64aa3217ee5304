"""Rows of prompts and their responses: which tokens are learned, how samples share rows, and the loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from torchdeck.data.step_order import Layout

IGNORED = -100
"""Target of tokens that are not learned."""
PADDING = 0
"""Token that fills rows up; what comes before it does not see it."""

Sample = tuple[Tensor, Tensor]
"""Input tokens and the target after each, or IGNORED; both int64, shape (length,)."""


def sample_of(tokens: npt.NDArray[np.int64], prompt: int, context: int) -> Sample:
    """Return the input tokens and the targets of a prompt and its response.

    Args:
        tokens: those of both, and the one that ends the response; shape (length,).
        prompt: number of tokens of the prompt, which are not learned. The first token never is.
        context: longest sample; the rest is cut.
    """
    read, targets = torch.from_numpy(tokens[:-1]), torch.from_numpy(tokens[1:].copy())
    # the target after the prompt's last token is the response's first
    targets[: max(0, prompt - 1)] = IGNORED
    return read[:context], targets[:context]


def collate(samples: Sequence[Sample], layout: Layout | None = None) -> dict[str, Any]:
    """Arrange samples in rows according to the layout.

    Returns:
        `tokens`, `targets` and `positions` (of each token in its sample), int64 of shape (rows, length),
        filled up with PADDING, IGNORED and 0; if a row has several samples `mask`, bool of shape (rows, 1,
        length, length), whether a token may be seen from another; and `learnt`, the number of targets that
        count.
    """
    sizes = [1] * len(samples) if layout is None or layout.row_sizes is None else list(layout.row_sizes)
    length = max(len(tokens) for tokens, _ in samples) if layout is None else layout.max_len
    tokens = torch.full((len(sizes), max(1, length)), PADDING)
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


def mean_loss(logits: Tensor, batch: dict[str, Any]) -> tuple[Tensor, int]:
    """Return the mean cross entropy in nats per token that is learned, and the number of those.

    Args:
        logits: shape (rows, length, vocabulary).
        batch: as `collate` returns it.
    """
    total = functional.cross_entropy(
        logits.flatten(0, 1), batch["targets"].flatten(), ignore_index=IGNORED, reduction="sum"
    )
    # a microbatch may be prompts alone, cut before their responses: its weight is 0
    return total / max(1, batch["learnt"]), batch["learnt"]


def _within_samples(owners: Tensor) -> Tensor:
    """Return where each token sees itself and the earlier ones of its sample; owners have shape (rows,
    length).
    """
    same = owners[:, :, None] == owners[:, None, :]
    return same.tril().unsqueeze(1)
