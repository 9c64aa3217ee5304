"""A user's recipe of samples of unequal length, whose rows are laid out as a batch plan says."""

from typing import Any

import torch
from torch import Tensor, nn

from torchdeck.data.step_order import Layout

WORDS = 64
WIDTH = 16
SAMPLES = 40


def length(sample: int) -> int:
    """Tokens of a sample, 4 to 67."""
    return 4 + 13 * sample % 64


class Texts:
    """Sample i has `length(i)` tokens."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Tensor:
        return torch.arange(length(index)) * 7 % WORDS


class Attention(nn.Module):
    """A model that keeps the scores of its attention, and so grows with tokens times length."""

    def __init__(self, *, keeps_scores: bool) -> None:
        super().__init__()
        self.keeps_scores = keeps_scores
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.block = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: Tensor) -> Tensor:
        values = self.embedding(tokens)
        keys = self.block(values)
        if self.keeps_scores:
            values = (values @ keys.transpose(1, 2)).softmax(2) @ values
        return self.head(values + keys)  # type: ignore[no-any-return]


def build_model(options: dict[str, Any]) -> nn.Module:
    return Attention(keeps_scores=options.get("keeps_scores", False))


def build_data(options: dict[str, Any], split: str) -> Texts:
    return Texts()


def collate(samples: list[Tensor], layout: Layout | None = None) -> Tensor:
    """Samples in rows of `layout.max_len` tokens, shape (rows, max_len)."""
    rows = samples
    longest = max(map(len, samples)) if layout is None else layout.max_len
    if layout is not None and layout.row_sizes is not None:
        ends = torch.tensor(layout.row_sizes).cumsum(0).tolist()
        rows = [
            torch.cat(samples[end - size : end]) for end, size in zip(ends, layout.row_sizes, strict=True)
        ]
    batch = torch.zeros(len(rows), longest, dtype=torch.int64)
    for row, tokens in zip(batch, rows, strict=True):
        row[: min(len(tokens), longest)] = tokens[:longest]
    return batch


def loss(model: nn.Module, batch: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(batch).flatten(0, 1), batch.flatten())


def blocks(model: Attention) -> list[nn.Module]:
    return [model.block]
