"""Models whose memory is compared with machines that it just fits, as recipes that need no data."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

from support.memory.measured_models import Numbers
from torchdeck.distributed.recipe_loading import Recipe

CLASSES = 10


class ConvNet(nn.Module):
    """Three stages of convolutions, of which two halve the image."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, 3, stride, 1), nn.BatchNorm2d(b), nn.ReLU())
            for a, b, stride in ((3, 32, 1), (32, 64, 2), (64, 128, 2))
        )
        self.head = nn.Linear(128, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = x.view(-1, 3, 32, 32)
        for stage in self.stages:
            x = stage(x)
        return self.head(x.mean((2, 3)))  # type: ignore[no-any-return]  # a module's call is Any


class Perceptron(nn.Module):
    """Wide layers, whose weights are most of the memory."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.Linear(768, 768) for _ in range(4))
        self.head = nn.Linear(768, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        for stage in self.stages:
            x = functional.gelu(stage(x))
        return self.head(x)  # type: ignore[no-any-return]


class Recurrent(nn.Module):
    """Two LSTM layers over 32 steps."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.LSTM(96, 96, batch_first=True) for _ in range(2))
        self.head = nn.Linear(96, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = x.view(-1, 32, 96)
        for stage in self.stages:
            x = stage(x)[0]
        return self.head(x[:, -1])  # type: ignore[no-any-return]


_SIZES: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "convnet": (ConvNet, 3 * 32 * 32),
    "mlp": (Perceptron, 768),
    "lstm": (Recurrent, 32 * 96),
}
NAMES = tuple(_SIZES)


def limit_recipe(name: str) -> Recipe:
    """Recipe of one of `NAMES`."""
    make, size = _SIZES[name]

    def blocks(model: nn.Module) -> Iterable[nn.Module]:
        assert isinstance(model, (ConvNet, Perceptron, Recurrent))
        return model.stages

    return Recipe(
        name=name,
        build_model=lambda _: make(),
        build_data=lambda _options, _split: Numbers(1024, size),
        loss=lambda model, batch: functional.cross_entropy(
            model(batch), torch.zeros(len(batch), dtype=torch.long)
        ),
        blocks=blocks,
    )
