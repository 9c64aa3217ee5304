"""What Torchdeck has put into torch and Accelerate in this process, taken away and put back."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol


class Turn(Protocol):
    """A training with or without callbacks."""

    def __call__(self, *, callback: bool) -> float:
        """Return its seconds."""


def in_turn(turn: Turn, count: int) -> list[list[float]]:
    """Seconds with and without callbacks, `count` times; which of them comes first alternates."""
    found = []
    for number in range(count):
        first = number % 2 == 0
        seconds = {callback: turn(callback=callback) for callback in (first, not first)}
        found.append([seconds[True], seconds[False]])
    return found


class Hooks:
    """The hook of torch that counts optimizer steps, and wrapped methods of Accelerate if it is imported."""

    def __init__(self) -> None:
        """Find them. Raises AssertionError: torch has another hook, or none."""
        self._of_torch = import_module("torch.optim.optimizer")._global_optimizer_post_hooks
        self._installed = dict(self._of_torch)
        assert len(self._installed) == 1
        self._methods = list(_methods_of_accelerate())

    def switch(self, *, on: bool) -> None:
        """Put all of them back, or take all of them away."""
        self._of_torch.clear()
        self._of_torch.update(self._installed if on else {})
        for owner, name, method in self._methods:
            setattr(owner, name, method if on else method.__wrapped__)


def _methods_of_accelerate() -> list[tuple[type, str, Any]]:
    accelerator = sys.modules.get("accelerate.accelerator")
    if accelerator is None:
        return []
    loaders = sys.modules["accelerate.data_loader"]
    owners = {
        accelerator.Accelerator: ("log", "load_state", "save_state", "end_training"),
        accelerator.AcceleratedOptimizer: ("step",),
        loaders.DataLoaderShard: ("__iter__",),
        loaders.DataLoaderDispatcher: ("__iter__",),
    }
    found = [(owner, name, vars(owner)[name]) for owner, names in owners.items() for name in names]
    # Accelerate has wrappers of its own, whose outermost one is not ours
    ours = [each for each in found if _is_ours(each[2])]
    assert len(ours) == len(found), "callbacks are missing"
    return ours


def _is_ours(method: Callable[..., Any]) -> bool:
    return method.__code__.co_filename.endswith("inside/accelerate.py")
