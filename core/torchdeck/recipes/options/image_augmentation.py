"""Options of built-in recipes for the augmentation of images."""

from __future__ import annotations

from typing import Any

from torchdeck.options import option


def augmentation_option() -> Any:
    """Declare `data.augmentation`."""
    return option(
        "How strongly images are rotated, scaled and changed; different in every epoch.", default="mild"
    )


def augment_per_option() -> Any:
    """Declare `data.augment_per`."""
    return option(
        "sample: an image is changed in the same way at any world size. rank: each rank changes it "
        "in its own way.",
        label="Augment per",
        default="sample",
    )


def augmentation_seed_option() -> Any:
    """Declare `data.augmentation_seed`."""
    return option("Seed of the augmentation.", label="Augmentation seed", default=0, ge=0)
