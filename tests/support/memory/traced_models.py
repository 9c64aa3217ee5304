"""Small models of several kinds, as recipes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from torchdeck.distributed.recipe_loading import Recipe, load_recipe

CLASSES = 5
SAMPLES = 16


class Convolutions(nn.Module):
    """Convolutions with a frozen stem and running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1).requires_grad_(requires_grad=False)
        stage = [nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
        self.stage = nn.Sequential(*stage)
        self.head = nn.Linear(8 * 8 * 8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.stage(self.stem(x)).flatten(1))  # type: ignore[no-any-return]


class Tied(nn.Module):
    """A layer that is called twice, another that has its weight transposed, and one that no one calls."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(32, 32)
        self.unused = nn.Linear(7, 7)
        self.other = nn.Linear(32, 32)
        self.other.weight = self.layer.weight
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.gelu(self.layer(functional.gelu(self.layer(x))))
        return self.head(self.norm(self.other(x)))  # type: ignore[no-any-return]


class Recurrent(nn.Module):
    """An LSTM over numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 24, num_layers=2, batch_first=True)
        self.head = nn.Linear(24, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0][:, -1])  # type: ignore[no-any-return]


class Bag(nn.Module):
    """Means of embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(50, 64)
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(3))
        self.head = nn.Linear(64, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.bag(x)
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return self.head(x)  # type: ignore[no-any-return]


class Attending(nn.Module):
    """torch's own transformer layer with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x).mean(1))  # type: ignore[no-any-return]


KINDS: dict[str, tuple[type[nn.Module], tuple[int, ...], bool]] = {
    "convolutions": (Convolutions, (3, 16, 16), False),
    "tied": (Tied, (32,), False),
    "recurrent": (Recurrent, (9, 6), False),
    "bag": (Bag, (7,), True),
    "attending": (Attending, (12, 16), False),
}
"""Name → model, shape of a sample, and whether samples are indices."""

GPT = {"layers": 2, "heads": 2, "width": 64, "context": 32}


def recipe_of(name: str) -> tuple[Recipe, dict[str, Any]]:
    """The recipe of `KINDS`, or byte-gpt, and its model options."""
    if name not in KINDS:
        return load_recipe("byte-gpt"), GPT | ({"dropout": 0.1} if "dropout" in name else {})
    kind, shape, indices = KINDS[name]

    def build_data(_: Any, __: str) -> TensorDataset:
        x = torch.randint(50, (SAMPLES, *shape)) if indices else torch.randn(SAMPLES, *shape)
        return TensorDataset(x, torch.randint(CLASSES, (SAMPLES,)))

    def loss(model: Any, batch: Any) -> Tensor:
        return functional.cross_entropy(model(batch[0]), batch[1])

    def blocks(model: Any) -> Iterable[nn.Module]:
        return [model.head] if not hasattr(model, "layers") else model.layers

    return Recipe(name, lambda _: kind(), build_data, loss, blocks), {}
