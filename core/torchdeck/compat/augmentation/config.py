"""Ranges of the parameters, and presets, with the numbers of DPA 0.2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torchdeck.contract.arguments.checked_call import arguments, checked_class
from torchdeck.data import augmentation_config as library
from torchdeck.data.augmentation_config import Range
from torchdeck.data.checked import whole_number


@checked_class
@dataclass(frozen=True)
class AugmentationConfig:
    """Uniform ranges of the parameters, and the number of rounds of the seed's hash.

    Raises:
        ValueError: a range is empty, not finite or meaningless, or the depth is less than 1.
    """

    rotation_range: Range = (-30.0, 30.0)
    """Degrees."""
    brightness_range: Range = (0.8, 1.2)
    """Factor."""
    noise_range: Range = (0.0, 0.1)
    """Standard deviation, in units of the value range."""
    scale_range: Range = (0.8, 1.2)
    """Factor."""
    contrast_range: Range = (0.7, 1.3)
    """Factor on the distance from the mean."""
    augmentation_depth: int = 10
    """Rounds of hashing after the first; another depth draws other parameters."""

    def __post_init__(self) -> None:
        library.AugmentationConfig(
            self.rotation_range,
            self.brightness_range,
            self.noise_range,
            self.scale_range,
            self.contrast_range,
        )
        whole_number("augmentation_depth", self.augmentation_depth, 1)


PRESETS: Mapping[str, AugmentationConfig] = {
    "mild": AugmentationConfig((-15, 15), (0.9, 1.1), (0, 0.05), (0.9, 1.1), (0.85, 1.15)),
    "moderate": AugmentationConfig((-30, 30), (0.8, 1.2), (0, 0.1), (0.8, 1.2), (0.7, 1.3)),
    "aggressive": AugmentationConfig((-45, 45), (0.7, 1.3), (0, 0.15), (0.7, 1.3), (0.6, 1.4)),
}


@arguments(own_checks=True)
def get_preset(name: str) -> AugmentationConfig:
    """Return the preset `mild`, `moderate` or `aggressive`.

    Raises:
        ValueError: there is no such preset.
    """
    library.get_preset(name)  # the same names
    return PRESETS[name]
