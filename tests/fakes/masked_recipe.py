"""A user's recipe whose samples have unequally many tokens, so that a mean of means is not the mean."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

LENGTH = 6
WORDS = 11


class Masked(Dataset[dict[str, Tensor]]):
    """Sample i has 1 to LENGTH targets that count; the other targets are -100."""

    def __init__(self, size: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.tokens = torch.randint(WORDS, (size, LENGTH), generator=generator)
        counts = torch.randint(1, LENGTH + 1, (size, 1), generator=generator)
        self.targets = torch.where(torch.arange(LENGTH) < counts, (self.tokens * 3 + 1) % WORDS, -100)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"tokens": self.tokens[index], "targets": self.targets[index]}


class Table(nn.Module):
    """An embedding and two blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 13)  # odd sizes: shards of two ranks differ
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(13, 13), nn.GELU()) for _ in range(2))
        self.head = nn.Linear(13, WORDS)

    def forward(self, tokens: Tensor) -> Tensor:
        values = self.embedding(tokens)
        for block in self.blocks:
            values = values + block(values)
        return self.head(values)  # type: ignore[no-any-return]


def build_model(options: dict[str, Any]) -> nn.Module:
    return Table()


def build_data(options: dict[str, Any], split: str) -> Dataset[dict[str, Tensor]] | None:
    size = options["samples"] if split == "train" else options.get("heldout", 7)
    return Masked(size, seed=1 if split == "train" else 2)


def loss(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, int]:
    logits, targets = model(batch["tokens"]).flatten(0, 1), batch["targets"].flatten()
    mean = nn.functional.cross_entropy(logits, targets)
    return mean, int((targets >= 0).sum())


def blocks(model: Table) -> list[nn.Module]:
    return list(model.blocks)
