"""Tensors of the accelerator in threads of the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")


def as_here(action: Callable[[T], R]) -> Callable[[T], R]:
    """Return `action` for other threads, which see tensors as this thread would now.

    A thread begins on the first GPU, and does not wait for work that another one has queued on its stream.
    """
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return action
    device = torch.cuda.current_device()
    torch.cuda.current_stream(device).synchronize()

    def on_device(item: T) -> R:
        with torch.cuda.device(device):
            return action(item)

    return on_device
