"""Torchdeck's data in other frameworks; each is imported only when one of its names is used."""

from __future__ import annotations

from torchdeck.data.lazy_names import lazy_names

HOMES = {
    "AugmentationLayer": "torchdeck.integrations.keras",
    "augment_images": "torchdeck.integrations.keras",
    "augmentation_map": "torchdeck.integrations.keras",
}
"""Public name → the module that defines it."""

__getattr__, __dir__ = lazy_names(__name__, HOMES)
