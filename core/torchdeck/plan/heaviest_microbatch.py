"""The microbatch of a batch plan that takes the most memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torchdeck.data.batch_plan import BatchPlan
    from torchdeck.data.batch_plan.columns import Microbatch


def heaviest_microbatch(plan: BatchPlan) -> Microbatch | None:
    """The one with the most tokens, padding counted, and of these the one with the longest rows.

    Activations grow with tokens, and attention's scores, where they are kept, with tokens times length.

    Returns:
        The first such one; None where the plan is empty.
    """
    best: tuple[tuple[int, int], int, int] | None = None
    for epoch in range(plan.epochs):
        columns = plan.epoch_columns(epoch)
        if not len(columns):
            continue
        tokens = columns.padded_tokens
        most = int(tokens.max())
        index = int(np.argmax(np.where(tokens == most, columns.max_len, -1)))
        weight = (most, int(columns.max_len[index]))
        if best is None or weight > best[0]:
            best = (weight, epoch, index)
    return None if best is None else plan.microbatch(best[1], best[2])
