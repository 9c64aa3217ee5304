"""Strength of augmentation: ranges, depth, presets."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from torchdeck.contract.arguments.checked_call import arguments, checked_class
from torchdeck.contract.arguments.errors import ArgumentError
from torchdeck.data.checked import whole_number

AUGMENTATIONS = ("rotation", "brightness", "noise", "scale", "contrast")
"""Augmentations in the order of all columns."""

NEUTRAL = {"rotation": 0.0, "brightness": 1.0, "noise": 0.0, "scale": 1.0, "contrast": 1.0}
"""Value of an augmentation that is not applied."""

_NOT_NEGATIVE = ("brightness", "noise", "contrast")

Range = tuple[float, float]
"""Minimum, and the bound that no value exceeds."""


def _checked_range(field: str, value: Any) -> Range:
    rule = "expected two numbers, minimum and maximum"
    try:
        low, high = value
    except (TypeError, ValueError):
        raise ArgumentError(f"{field} is {value!r}", fix=rule) from None
    for bound in (low, high):
        if isinstance(bound, bool) or not isinstance(bound, numbers.Real) or not math.isfinite(bound):
            raise ArgumentError(f"{field} is {value!r}", fix=f"{rule}, both finite")
    if not math.isfinite(float(high) - float(low)):
        raise ArgumentError(
            f"{field} from {low} to {high} is too wide", fix="expected a width that float64 can hold"
        )
    if low > high:
        raise ArgumentError(
            f"{field} from {low} to {high} is empty", fix="the first must not be above the second"
        )
    return float(low), float(high)


@checked_class
@dataclass(frozen=True)
class AugmentationConfig:
    """Uniform ranges of the parameters, and how many of the five augmentations a sample gets.

    Raises:
        ValueError: a range is empty, not finite or meaningless, or the depth is not from 1 to 5.
    """

    rotation_range: Range = (-15.0, 15.0)
    """Degrees, counter-clockwise."""
    brightness_range: Range = (0.8, 1.2)
    """Factor on every value."""
    noise_range: Range = (0.0, 0.05)
    """Standard deviation of added Gaussian noise, in units of the value range."""
    scale_range: Range = (0.9, 1.1)
    """Factor on both axes of the picture; above 0."""
    contrast_range: Range = (0.8, 1.2)
    """Factor on the distance from the mean."""
    augmentation_depth: int = 5
    """Length of the chain of augmentations that a sample goes through, 1 to 5 (see AugMix, Hendrycks et al.,
    ICLR 2020): this many of the five, chosen for each sample, while the others are neutral."""

    def __post_init__(self) -> None:
        for name in AUGMENTATIONS:
            field = f"{name}_range"
            object.__setattr__(self, field, _checked_range(field, getattr(self, field)))
            low = self.range_of(name)[0]
            if name in _NOT_NEGATIVE and low < 0:
                raise ArgumentError(f"{field} starts at {low}", fix="it must not be negative")
        if self.scale_range[0] <= 0:
            raise ArgumentError(f"scale_range starts at {self.scale_range[0]}", fix="it must be above 0")
        whole_number("augmentation_depth", self.augmentation_depth, 1, len(AUGMENTATIONS))

    @arguments(own_checks=True)
    def range_of(self, name: str) -> Range:
        """Return the range of one of AUGMENTATIONS."""
        found: Range = getattr(self, f"{name}_range")
        return found

    def to_json(self) -> dict[str, Any]:
        """The fields by name; `AugmentationConfig(**value)` restores it, and ranks compare it."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()
        }

    @classmethod
    @arguments(own_checks=True)
    def get_preset(cls, name: str) -> AugmentationConfig:
        """Return the preset `mild`, `moderate` or `aggressive`.

        Raises:
            ValueError: there is no such preset.
        """
        return get_preset(name)


PRESETS: Mapping[str, AugmentationConfig] = {
    "mild": AugmentationConfig(
        (-5.0, 5.0), (0.9, 1.1), (0.0, 0.02), (0.95, 1.05), (0.9, 1.1), augmentation_depth=2
    ),
    "moderate": AugmentationConfig(
        (-15.0, 15.0), (0.8, 1.2), (0.0, 0.05), (0.9, 1.1), (0.8, 1.2), augmentation_depth=3
    ),
    "aggressive": AugmentationConfig(
        (-45.0, 45.0), (0.5, 1.5), (0.0, 0.15), (0.7, 1.3), (0.5, 1.5), augmentation_depth=5
    ),
}


@arguments(own_checks=True)
def get_preset(name: str) -> AugmentationConfig:
    """Return the preset `mild`, `moderate` or `aggressive`.

    Raises:
        ValueError: there is no such preset.
    """
    if name not in PRESETS:
        raise ArgumentError(f"there is no augmentation preset {name!r}", fix=f"there is {', '.join(PRESETS)}")
    return PRESETS[name]
