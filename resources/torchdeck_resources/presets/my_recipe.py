"""Recipe with a model, its data and its loss. Torchdeck provides the rest.

The task here: tell the two arms of a spiral apart. Change any of it; only the names of the functions matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset


class Spirals(nn.Module):
    """Model from points in the plane, shape (batch, 2), to logits of the two arms, shape (batch, 2)."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.first = nn.Linear(2, width)
        self.hidden = nn.ModuleList(nn.Sequential(nn.GELU(), nn.Linear(width, width)) for _ in range(depth))
        self.last = nn.Linear(width, 2)

    def forward(self, points: Tensor) -> Tensor:
        hidden = self.first(points)
        for block in self.hidden:
            hidden = hidden + block(hidden)
        logits: Tensor = self.last(hidden)
        return logits


def build_model(options: dict[str, Any]) -> nn.Module:
    """Return the model; `options` is the [model] table of run.toml."""
    return Spirals(int(options.get("width", 64)), int(options.get("depth", 2)))


def build_data(options: dict[str, Any], split: str) -> Dataset[tuple[Tensor, ...]] | None:
    """Return a dataset of samples with length and indexing; `split` is "train" or "heldout" (None: there is
    none).
    """
    count = int(options.get("samples", 4096)) // (1 if split == "train" else 8)
    generator = torch.Generator().manual_seed(0 if split == "train" else 1)
    arm = torch.randint(0, 2, (count,), generator=generator)
    turn = torch.rand(count, generator=generator) * 2 * math.pi
    angle = turn + arm * math.pi
    noise = torch.randn(count, 2, generator=generator) * float(options.get("noise", 0.1))
    points = torch.stack([angle.cos(), angle.sin()], dim=1) * (turn / math.pi).unsqueeze(1) + noise
    return TensorDataset(points, arm)


def loss(model: nn.Module, batch: list[Tensor]) -> Tensor:
    """Return the mean loss of one microbatch: samples stacked by torch's default_collate, on the rank's
    device.
    """
    points, arm = batch
    return nn.functional.cross_entropy(model(points), arm)


def blocks(model: nn.Module) -> Iterable[nn.Module]:
    """Optional: return the units that fsdp gathers one at a time."""
    return cast("Spirals", model).hidden
