"""Recipe digits: handwritten digits of 8 × 8 pixels, classified by a small convolutional network.

The data is scikit-learn's `load_digits` (1,797 pictures of the test part of E. Alpaydin and C. Kaynak's
"Optical Recognition of Handwritten Digits", 1998), which comes with that package.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.recipes.classification import loss
from torchdeck.recipes.image_augmentation import augmented

if TYPE_CHECKING:
    from torchdeck.distributed.augmented_dataset import MapDataset

__all__ = ["blocks", "build_data", "build_model", "fingerprint", "loss"]

CLASSES = 10
_BRIGHTEST = 16.0
_SPLIT_SEED = 0
_GROUPS = 4


class Stage(nn.Module):
    """Pictures (batch, before, height, width) → (batch, after, height / stride, width / stride)."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        # normalises each sample by itself: unlike batch statistics, independent of how samples are
        # distributed
        self.norm = nn.GroupNorm(_GROUPS, after)

    def forward(self, x: Tensor) -> Tensor:
        return functional.gelu(self.norm(self.convolution(x)))


class DigitNet(nn.Module):
    """Pictures (batch, 1, 8, 8) → logits (batch, 10).

    Args:
        width: channels of the first stage, a multiple of 4; the later ones have twice as many.
        dropout: fraction of the last activations dropped in training.
    """

    def __init__(self, *, width: int, dropout: float) -> None:
        super().__init__()
        self.stages = nn.ModuleList(
            [Stage(1, width, 1), Stage(width, 2 * width, 2), Stage(2 * width, 2 * width, 2)]
        )
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(2 * width * 2 * 2, CLASSES)

    def forward(self, pictures: Tensor) -> Tensor:
        x = pictures
        for stage in self.stages:
            x = stage(x)
        return self.head(self.dropout(x.flatten(1)))  # type: ignore[no-any-return]


def build_model(options: dict[str, Any]) -> DigitNet:
    """Build the model of a [model] table: width, dropout.

    Raises:
        RecipeError: the width is not a multiple of 4.
    """
    sizes = {"width": 32, "dropout": 0.1} | options
    if sizes["width"] % _GROUPS:
        raise RecipeError(f"model.width {sizes['width']} is no multiple of {_GROUPS}: take one")
    return DigitNet(**sizes)


def build_data(options: dict[str, Any], split: str) -> MapDataset | None:
    """Build pairs of a picture, float32 of shape (1, 8, 8) from 0 to 1, and its digit; None if none is held
    out.

    Args:
        options: heldout, and for "train" augmentation (a preset of `torchdeck.data`, or "none"), augment_per
            ("sample" or "rank") and augmentation_seed.
        split: "train" or "heldout", which is never augmented.

    Raises:
        RecipeError: scikit-learn is missing, or an option is wrong.
    """
    pictures, digits = _digits()
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(digits))
    cut = len(order) - int(len(order) * options.get("heldout", 0.2))
    chosen = torch.from_numpy(order[:cut] if split == "train" else order[cut:])
    if len(chosen) == 0:
        return None
    data = TensorDataset(pictures[chosen], digits[chosen])
    return augmented(data, options) if split == "train" else data


def fingerprint(options: dict[str, Any]) -> str:
    """Return the fingerprint of the pictures, their split, and their augmentation."""
    pictures, digits = _digits()
    said = {name: value for name, value in sorted(options.items()) if name != "workers"}
    digest = hashlib.sha256(pictures.numpy().tobytes() + digits.numpy().tobytes() + repr(said).encode())
    return f"digits-{digest.hexdigest()}"


def blocks(model: nn.Module) -> Iterable[nn.Module]:
    """Return the stages of the network."""
    assert isinstance(model, DigitNet)  # noqa: S101 - the recipe's own model; narrows the type
    return model.stages


def _digits() -> tuple[Tensor, Tensor]:
    """Return all pictures, float32 of shape (1797, 1, 8, 8), and their digits, int64."""
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]
    except ImportError as error:
        raise RecipeError(
            f"recipe digits needs scikit-learn, which has the pictures ({error}): "
            "pip install 'torchdeck[digits]' on every node"
        ) from error
    found = load_digits()
    pictures = torch.from_numpy(found.images.astype(np.float32) / _BRIGHTEST).unsqueeze(1)
    return pictures, torch.from_numpy(found.target.astype(np.int64))
