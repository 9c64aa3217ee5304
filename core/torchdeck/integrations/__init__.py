"""Torchdeck's data in other frameworks; each is imported only when one of its names is used."""

from __future__ import annotations

from torchdeck.data.lazy_names import lazy_names, with_names

TYPE_CHECKING = False  # what type checkers take for typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from torchdeck.integrations.keras import AugmentationLayer, augment_images, augmentation_map

__all__ = ["AugmentationLayer", "augment_images", "augmentation_map"]

_KERAS = "torchdeck.integrations.keras"

NAMES = {
    "AugmentationLayer": (_KERAS, "layer that augments a batch of images"),
    "augment_images": (_KERAS, "rotate and scale images, change contrast, brightness and noise"),
    "augmentation_map": (_KERAS, "function for `tf.data.Dataset.map` that augments every sample"),
}
"""Public name → the module that defines it, and one line for the list in `help`."""

HOMES = {name: home for name, (home, _) in NAMES.items()}
"""Public name → the module that defines it."""

__doc__ = with_names(__doc__, NAMES)
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, NAMES)
