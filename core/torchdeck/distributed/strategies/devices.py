"""Moves batches of any structure to a device."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


def on_device(batch: Any, device: torch.device) -> Any:
    """Return `batch` with its tensors on `device`, in mappings, tuples, lists and dataclasses to any depth.

    Containers are rebuilt, mappings as dicts; the batch itself is unchanged. Other values (strings, numbers,
    objects) are passed through.
    """
    if isinstance(batch, Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, Mapping):
        return {key: on_device(value, device) for key, value in batch.items()}
    if isinstance(batch, (tuple, list)):
        values = [on_device(value, device) for value in batch]
        return type(batch)(*values) if hasattr(batch, "_fields") else type(batch)(values)
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        moved = copy.copy(batch)
        for field in dataclasses.fields(batch):
            # bypasses a frozen dataclass's __setattr__, and works whether or not the field is an argument of
            # __init__
            object.__setattr__(moved, field.name, on_device(getattr(batch, field.name), device))
        return moved
    return batch
