"""Options of the built-in recipe digits: a small image classifier."""

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


class DigitsModel(Section):
    """The [model] table of recipe digits: a convolutional network of three stages."""

    width: int = option(
        "Channels of the first stage, in groups of 4; later stages have twice as many.",
        default=32,
        unit="channels",
        ge=4,
        le=4096,
        multiple_of=4,
        right="a multiple of 4 from 4 to 4096",
    )
    dropout: float = option("Fraction of activations dropped in training.", default=0.1, ge=0, lt=1)
    init_from: str | None = init_from_option()
    init_names: dict[str, str] = init_names_option()
    init_new: list[str] = init_new_option()


class DigitsData(Section):
    """The [data] table of recipe digits: scikit-learn's handwritten digits."""

    augmentation: Literal["none", "mild", "moderate", "aggressive"] = augmentation_option()
    augment_per: Literal["sample", "rank"] = augment_per_option()
    augmentation_seed: int = augmentation_seed_option()
    heldout: float = heldout_option(0.2)
    workers: int = workers_option()
