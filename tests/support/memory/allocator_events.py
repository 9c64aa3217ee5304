"""What a real forward and backward allocates, as torch's allocator tells its profiler."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import default_collate

from torchdeck.distributed.recipe_loading import Recipe
from torchdeck.tracing.microbatch import run_microbatch


@dataclass(frozen=True)
class Allocations:
    """Of one forward and backward on real tensors; weights are not counted, the batch is."""

    totals: list[int]
    """Bytes alive after each allocation and free."""
    without_workspace: list[int]
    """The same without what a kernel takes for itself: freed by the very operation that allocated it."""


def real_allocations(recipe: Recipe, model: nn.Module, microbatch: int, precision: str) -> Allocations:
    """Train `model` on the first samples of the recipe's data, once; gradients stay."""
    data = recipe.build_data(recipe.options_of_data({"context": 32}, {}), "train")
    make_batch = partial(default_collate, [data[i] for i in range(microbatch)])
    return allocations_of(recipe, model, make_batch, microbatch, precision)


def allocations_of(
    recipe: Recipe, model: nn.Module, make_batch: Callable[[], Any], samples: int, precision: str
) -> Allocations:
    """Train `model` on a batch of `samples` samples, once; gradients stay."""
    # the batch is known to the profiler too, or it would not tell when it is freed
    events = _recorded(lambda: run_microbatch(recipe, model, [make_batch()], samples, precision))
    workspace = _workspace(events)
    sizes = [size for _, size, _, _ in events]
    kept = [size for i, (_, size, _, _) in enumerate(events) if i not in workspace]
    return Allocations(list(accumulate(sizes)), list(accumulate(kept)))


def real_totals(run: Callable[[], Any]) -> list[int]:
    """Bytes alive after each allocation and free of `run`."""
    return list(accumulate(size for _, size, _, _ in _recorded(run)))


def _recorded(run: Callable[[], Any]) -> list[tuple[int, int, int, int]]:
    with (
        _no_collection(),
        profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiler,
    ):
        run()
    return sorted(_events(profiler.profiler.kineto_results.experimental_event_tree()))


@contextmanager
def _no_collection() -> Iterator[None]:
    """When cycles are found is chance, be they this model's or those that an earlier test left."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _events(tree: Any) -> list[tuple[int, int, int, int]]:
    """(time in ns, bytes or their negative, address, which operation did it) of each allocation and free."""
    found: list[tuple[int, int, int, int]] = []
    pending = [(event, 0) for event in tree]
    seen = 0
    while pending:
        event, operation = pending.pop()
        seen += 1
        if event.tag == torch._C._profiler._EventType.Allocation:
            fields = event.extra_fields
            found.append((event.start_time_ns, fields.alloc_size, fields.ptr, operation))
        pending += [(child, seen) for child in event.children]
    return found


def _workspace(events: list[tuple[int, int, int, int]]) -> set[int]:
    """Positions of allocations that the same operation freed, and of these frees."""
    live: dict[int, tuple[int, int]] = {}
    found: set[int] = set()
    for i, (_, size, address, operation) in enumerate(events):
        if size > 0:
            live[address] = (i, operation)
        elif address in live:
            began, owner = live.pop(address)
            if owner == operation != 0:
                found |= {began, i}
    return found
