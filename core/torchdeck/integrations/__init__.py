"""Torchdeck's data in other frameworks; each is imported only when one of its names is asked for."""

from __future__ import annotations

import importlib
from typing import Any

HOMES = {
    "AugmentationLayer": "torchdeck.integrations.keras",
    "augment_images": "torchdeck.integrations.keras",
    "augmentation_map": "torchdeck.integrations.keras",
}
"""Public name → the module that has it."""


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *HOMES])
