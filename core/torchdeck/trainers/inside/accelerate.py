"""Loops on Hugging Face Accelerate: their steps, what they log, and a stop that saves as they do."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from torchdeck.trainers.inside.accelerate_loop import NAME, Loop
from torchdeck.trainers.inside.report import Report


def add(module: ModuleType, report: Report) -> None:
    """Follow the loop from what it calls.

    Args:
        module: `accelerate.accelerator`.
        report: of this rank.
    """
    loop = Loop(report)
    accelerator, loaders = module.Accelerator, sys.modules["accelerate.data_loader"]
    accelerator.log = _calling(accelerator.log, report, before=loop.log)
    accelerator.load_state = _calling(accelerator.load_state, report, before=loop.load)
    accelerator.save_state = _calling(accelerator.save_state, report, before=loop.save, after=loop.saved)
    accelerator.end_training = _calling(accelerator.end_training, report, before=loop.end)
    stepped = module.AcceleratedOptimizer
    stepped.step = _calling(stepped.step, report, after=loop.stepped)
    for loader in (loaders.DataLoaderShard, loaders.DataLoaderDispatcher):
        loader.__iter__ = _ending(loader.__iter__, loop, report)


def _calling(
    original: Callable[..., Any],
    report: Report,
    *,
    before: Callable[..., None] | None = None,
    after: Callable[..., None] | None = None,
) -> Callable[..., Any]:
    """Return a method that also calls `before` and `after` with its own arguments."""
    what = original.__name__

    @functools.wraps(original)
    def method(*args: Any, **kwargs: Any) -> Any:
        if before is not None:
            report.guarded(NAME, what, before, *args, **kwargs)
        done = original(*args, **kwargs)
        if after is not None:
            report.guarded(NAME, what, after, *args, **kwargs)
        return done

    return method


def _ending(original: Callable[..., Any], loop: Loop, report: Report) -> Callable[..., Any]:
    """Return a data loader's `__iter__` that ends the program at a stop, once it has saved.

    That is when the program asks for the next batch: all that it does in a step is done then. In another
    thread, which only fetches batches, it is not.
    """

    @functools.wraps(original)
    def batches(self: Any) -> Iterator[Any]:
        for batch in original(self):
            steps = loop.steps
            yield batch
            trains = loop.steps > steps and threading.current_thread() is threading.main_thread()
            if trains and report.guarded(NAME, "stop", loop.saved_for_stop):
                raise SystemExit(0)

    return batches
