"""The learning rate as a pure function of the step."""

from __future__ import annotations

import math
from collections.abc import Callable

Decay = Callable[[float], float]
"""Fraction of the steps after the warm-up done → remaining fraction of the decay to the minimum."""

DECAYS: dict[str, Decay] = {
    "constant": lambda _: 1.0,
    "linear": lambda done: 1.0 - done,
    "cosine": lambda done: 0.5 * (1.0 + math.cos(math.pi * done)),
}
"""Cosine without restarts: Loshchilov & Hutter, 2017."""


def lr_factor(step: int, *, total: int, warmup: int, schedule: str, min_ratio: float) -> float:
    """Return the factor of the peak learning rate in a step.

    The warm-up rises linearly: its first step has 1 / warmup, its last 1. After it the schedule falls from 1
    to `min_ratio`, which the last step has.

    Args:
        step: steps done before this one, from 0.
        total: steps in all.
        warmup: steps of the warm-up; it may be longer than `total`.
        schedule: "constant", "linear" or "cosine".
        min_ratio: final value of linear and cosine, 0 to 1.
    """
    if step < warmup:
        return (step + 1) / warmup
    last = total - 1 - warmup
    done = min(1.0, (step - warmup) / last) if last > 0 else 0.0
    return min_ratio + (1.0 - min_ratio) * DECAYS[schedule](done)
