"""A user's recipe: a small regression with dropout, as slow as its options say, so that tests can step in."""

import threading
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

FEATURES = 16


class Paced(nn.Module):
    """Two blocks with dropout; every forward takes at least `pace` seconds."""

    def __init__(self, width: int, pace: float, dropout: float) -> None:
        super().__init__()
        self.pace = pace
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(size, width), nn.Tanh(), nn.Dropout(dropout))
            for size in (FEATURES, width)
        )
        self.head = nn.Linear(width, 1)

    def forward(self, values: Tensor) -> Tensor:
        if self.pace:
            threading.Event().wait(self.pace)
        for layer in self.layers:
            values = layer(values)
        predicted: Tensor = self.head(values)
        return predicted


def build_model(options: dict[str, Any]) -> nn.Module:
    return Paced(
        int(options.get("width", 32)), float(options.get("pace", 0.0)), float(options.get("dropout", 0.2))
    )


def build_data(options: dict[str, Any], split: str) -> Dataset[Any]:
    generator = torch.Generator().manual_seed(1 if split == "train" else 2)
    values = torch.randn(int(options.get("samples", 256)), FEATURES, generator=generator)
    return TensorDataset(values, values.sum(1, keepdim=True).sin())


def loss(model: nn.Module, batch: list[Tensor]) -> Tensor:
    values, targets = batch
    return nn.functional.mse_loss(model(values), targets)


def blocks(model: Paced) -> list[nn.Module]:
    return list(model.layers)
