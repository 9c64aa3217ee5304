"""Augmentation of the training images of a built-in recipe, as its [data] table says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import distributed

from torchdeck.data.augmentation_config import NEUTRAL, PRESETS, AugmentationConfig
from torchdeck.distributed.recipe_loading import RecipeError

if TYPE_CHECKING:
    from torchdeck.distributed.augmented_dataset import Augment, MapDataset

_NOTHING = AugmentationConfig(**{f"{name}_range": (value, value) for name, value in NEUTRAL.items()})  # type: ignore[arg-type] # its ranges


def augmented(data: MapDataset, options: dict[str, Any], augment: Augment | None = None) -> MapDataset:
    """Return the data set whose images are changed, or `data` itself for "none".

    Args:
        data: samples whose first item is an image.
        options: augmentation (a preset of `torchdeck.data`, or "none"), augment_per ("sample" or "rank") and
            augmentation_seed.
        augment: function that applies the parameters. Default: `augment_image`.

    Raises:
        RecipeError: there is no such preset.
    """
    name = options.get("augmentation", "mild")
    if name == "none" and augment is None:
        return data
    # torchdeck.distributed imports the recipes
    from torchdeck.distributed.augmented_dataset import AugmentedDataset, augment_image

    together = distributed.is_available() and distributed.is_initialized()
    return AugmentedDataset(
        data,
        _preset(name),
        options.get("augmentation_seed", 0),
        mode=options.get("augment_per", "sample"),
        rank=distributed.get_rank() if together else 0,
        world_size=distributed.get_world_size() if together else 1,
        augment=augment or augment_image,
    )


def _preset(name: str) -> AugmentationConfig:
    if name == "none":
        return _NOTHING
    if name not in PRESETS:
        raise RecipeError(f"data.augmentation is {name!r}: expected none, {', '.join(PRESETS)}")
    return PRESETS[name]
