"""Microbatch of a batch plan that takes the most memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torchdeck.data.batch_plan import BatchPlan
    from torchdeck.data.batch_plan.columns import EpochColumns, Ints, Microbatch


def heaviest_microbatch(plan: BatchPlan) -> Microbatch | None:
    """Return the microbatch with the most tokens, padding counted, and of these the one with the longest
    rows.

    Returns:
        The first such one; None if the plan is empty.
    """
    return _first_largest(plan, lambda columns: (columns.padded_tokens, columns.max_len))


def heavy_microbatches(plan: BatchPlan) -> tuple[Microbatch, ...]:
    """Return candidates, one of which takes the most memory.

    Activations grow with tokens, and attention's scores, in models that keep them, with tokens times length.

    Returns:
        `heaviest_microbatch`, and the one with the most scores if it is another; () for an empty plan.
    """
    found = (
        heaviest_microbatch(plan),
        _first_largest(
            plan, lambda columns: (columns.padded_tokens * columns.max_len, columns.padded_tokens)
        ),
    )
    distinct = {(one.rows, one.max_len): one for one in found if one is not None}
    return tuple(distinct.values())


def _first_largest(
    plan: BatchPlan, weights: Callable[[EpochColumns], tuple[Ints, Ints]]
) -> Microbatch | None:
    """Return the first with the largest weight, and among equals the one with the largest second weight."""
    best: tuple[tuple[int, int], int, int] | None = None
    for epoch in range(plan.epochs):
        columns = plan.epoch_columns(epoch)
        if not len(columns):
            continue
        first, second = weights(columns)
        index = int(np.argmax(np.where(first == first.max(), second, -1)))
        weight = (int(first[index]), int(second[index]))
        if best is None or weight > best[0]:
            best = (weight, epoch, index)
    return None if best is None else plan.microbatch(best[1], best[2])
