"""Options of the built-in recipe image-folder: a ResNet that classifies the images of a folder."""

from __future__ import annotations

from typing import Literal

from torchdeck.options import Section, option
from torchdeck.recipes.options.image_augmentation import (
    augment_per_option,
    augmentation_option,
    augmentation_seed_option,
)
from torchdeck.recipes.options.initial_weights import init_from_option, init_names_option, init_new_option
from torchdeck.recipes.options.text import heldout_option, workers_option


class ResNetModel(Section):
    """The [model] table of recipe image-folder: a ResNet whose normalisation is GroupNorm."""

    network: Literal["resnet18", "resnet34", "resnet50", "resnet101"] = option(
        "The ResNet, by its number of layers.", default="resnet18"
    )
    classes: int = option(
        "Classes, as many as there are folders of images.", default=1000, ge=2, le=1_000_000
    )
    width: int = option(
        "Channels of the first stage, in groups of 32; each later stage has twice as many.",
        default=64,
        unit="channels",
        ge=32,
        le=4096,
        multiple_of=32,
        right="a multiple of 32 from 32 to 4096",
    )
    init_from: str | None = init_from_option()
    init_names: dict[str, str] = init_names_option()
    init_new: list[str] = init_new_option()


class ImageFolderData(Section):
    """The [data] table of recipe image-folder: one folder of images per class."""

    source: str = option(
        "Folder with one folder of images per class. Or a folder with such folders in train, and in val or "
        "validation.",
        label="Training data",
        default="images",
        path=True,
        min_length=1,
        right="the path of a folder",
    )
    size: int = option(
        "Width and height of the images that are trained on; larger ones are scaled down and cut.",
        label="Image size",
        default=224,
        unit="pixels",
        ge=8,
        le=4096,
    )
    flip: bool = option("Mirror every second training image, by chance.", label="Mirror images", default=True)
    augmentation: Literal["none", "mild", "moderate", "aggressive"] = augmentation_option()
    augment_per: Literal["sample", "rank"] = augment_per_option()
    augmentation_seed: int = augmentation_seed_option()
    heldout: float = heldout_option(0.1)
    workers: int = workers_option()
