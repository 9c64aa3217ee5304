"""Training inside the ranks: strategies, trainer, checkpoints.

Names are resolved on first use, so that importing a light part (`torchdeck.distributed.checkpoints.manifest`)
does not import torch.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "RecipeError": "torchdeck.recipes.errors",
    "RecipeSettings": "torchdeck.distributed.settings",
    "SettingsError": "torchdeck.distributed.checked",
    "ProcessGroup": "torchdeck.distributed.process_group",
    "Strategy": "torchdeck.distributed.strategies.base",
    "make_strategy": "torchdeck.distributed.strategies.registry",
    "Trainer": "torchdeck.distributed.trainer.trainer",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
