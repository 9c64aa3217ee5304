"""Models whose memory is measured in real ranks, as recipes that need no data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

from torchdeck.contract.plan.model_profile import ModelProfile, TensorInfo
from torchdeck.distributed.fsdp_units import units_of
from torchdeck.distributed.rank_settings import FsdpSettings
from torchdeck.distributed.recipe_loading import Recipe, load_recipe

SHAPES: tuple[tuple[int, ...], ...] = (
    (1,), (2,), (3,), (5,), (7,), (8,), (9,), (16,), (17,), (31,), (64,), (100,), (127,),
    (1, 1), (1, 9), (2, 10), (3, 4), (4, 4), (5, 3), (6, 1), (7, 7), (8, 3), (9, 2), (10, 5), (11, 13),
    (13, 1), (15, 2), (16, 16), (23, 4), (33, 3), (64, 5), (129, 2), (255, 1), (256, 8),
    (1, 2, 3), (2, 3, 4), (5, 1, 2), (8, 2, 2), (9, 3, 3), (12, 5, 1), (17, 2, 3),
    (3, 1, 3, 3), (4, 3, 2, 2), (10, 1, 1, 1), (19, 2, 1, 3), (32, 3, 3, 3),
)  # fmt: skip
"""Rows that divide evenly, leave a short last chunk, or none at all for some ranks of 2 to 8."""


class Numbers(Dataset[Tensor]):
    """`count` samples of `size` numbers."""

    def __init__(self, count: int, size: int) -> None:
        self._count = count
        self._size = size

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Tensor:
        return torch.full((self._size,), index / self._count)


class Some(nn.Module):
    """A unit with a parameter of each of some shapes; every other one is frozen too, beside a trained one."""

    scale: Tensor

    def __init__(self, shapes: Sequence[tuple[int, ...]]) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.ones(shape) for shape in shapes)
        self.frozen = nn.ParameterList(
            nn.Parameter(torch.ones(shape), requires_grad=False) for shape in shapes[::2]
        )
        self.register_buffer("scale", torch.ones(len(shapes)))

    def forward(self, x: Tensor) -> Tensor:
        means = [weight.mean() for weight in [*self.weights, *self.frozen]]
        return x * torch.stack(means).mean() * self.scale.mean()


class Shapes(nn.Module):
    """All of `SHAPES` in units of six; `scalar`: a parameter without dimensions too."""

    def __init__(self, *, scalar: bool) -> None:
        super().__init__()
        self.units = nn.ModuleList(Some(SHAPES[i : i + 6]) for i in range(0, len(SHAPES), 6))
        self.gain = nn.Parameter(torch.ones(() if scalar else (1,)))

    def forward(self, x: Tensor) -> Tensor:
        for unit in self.units:
            x = unit(x)
        return x * self.gain


class Vision(nn.Module):
    """Convolutions with buffers, a frozen stem, an odd number of classes, and a matrix that is used twice."""

    def __init__(self, channels: int = 12, classes: int = 13) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, channels, 3, padding=1)
        self.stem.requires_grad_(requires_grad=False)
        self.stages = nn.ModuleList(
            nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU())
            for _ in range(3)
        )
        self.mix = nn.Linear(channels, channels, bias=False)
        self.again = nn.Linear(channels, channels)
        self.again.weight = self.mix.weight
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x.view(-1, 1, 8, 8))
        for stage in self.stages:
            x = stage(x)
        return self.head(self.again(self.mix(x.mean((2, 3)))))  # type: ignore[no-any-return]


def shapes(*, scalar: bool = False) -> Recipe:
    """Recipe of `Shapes`."""

    def blocks(model: nn.Module) -> Iterable[nn.Module]:
        assert isinstance(model, Shapes)
        return model.units

    return Recipe(
        name="shapes",
        build_model=lambda _: Shapes(scalar=scalar),
        build_data=lambda _options, _split: Numbers(64, 1),
        loss=lambda model, batch: model(batch).square().mean(),
        blocks=blocks,
    )


def vision() -> Recipe:
    """Recipe of `Vision`."""

    def blocks(model: nn.Module) -> Iterable[nn.Module]:
        assert isinstance(model, Vision)
        return model.stages

    return Recipe(
        name="vision",
        build_model=lambda _: Vision(),
        build_data=lambda _options, _split: Numbers(64, 64),
        loss=lambda model, batch: functional.cross_entropy(
            model(batch), torch.zeros(len(batch), dtype=torch.long)
        ),
        blocks=blocks,
    )


def half_frozen() -> Recipe:
    """byte-gpt whose embeddings and first half of blocks are frozen, as when its head is fine-tuned."""
    whole = load_recipe("byte-gpt")

    def build_model(options: dict[str, Any]) -> nn.Module:
        model: Any = whole.build_model(options)
        half = len(model.blocks) // 2
        for module in (model.embedding, model.positions, *model.blocks[:half]):
            module.requires_grad_(requires_grad=False)
        return model  # type: ignore[no-any-return]

    return replace(whole, name="half-frozen", build_model=build_model)


def recipe_of(name: str) -> Recipe:
    """The recipe called `name`: one of these, or one that Torchdeck has."""
    ours: dict[str, Callable[[], Recipe]] = {
        "shapes": shapes,
        "shapes with a scalar": lambda: shapes(scalar=True),
        "vision": vision,
        "half-frozen": half_frozen,
    }
    if name in ours:
        return ours[name]()
    from support.memory import limit_models  # which takes its data from here

    return limit_models.limit_recipe(name) if name in limit_models.NAMES else load_recipe(name)


def profile_of(name: str, options: dict[str, Any] | None = None) -> ModelProfile:
    """Tensors and units of the recipe called `name`, without traces."""
    recipe = recipe_of(name)
    with torch.device("meta"):
        model = recipe.build_model(options or {})
    modules = {module: path for path, module in model.named_modules()}
    units = ["", *(modules[unit] for unit in units_of(model, recipe.blocks, FsdpSettings()))]
    return ModelProfile(
        source="traced",
        parameters=tuple(_info(path, p, units) for path, p in model.named_parameters()),
        buffers=tuple(_info(path, b, units) for path, b in model.named_buffers()),
        units=tuple(units),
        precision="fp32",
        traces=(),
    )


def _info(path: str, tensor: Tensor, units: list[str]) -> TensorInfo:
    unit = max((i for i, name in enumerate(units) if not i or path.startswith(f"{name}.")), default=0)
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorInfo(path, tuple(tensor.shape), dtype, tensor.requires_grad, unit)
