"""Texts of training rates, in one format everywhere."""

from __future__ import annotations

import math

from torchdeck.quantities import metric
from torchdeck.runs.training_progress import TrainingProgress

_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def rate_text(value: float, what: str) -> str:
    """Return a rate with three digits: `1.24k tok/s`, `940 smp/s`, `0.75 smp/s`.

    Args:
        value: rate per second.
        what: `tok` or `smp`.
    """
    if not math.isfinite(value):
        return f"{metric(value)} {what}/s"
    for limit, prefix in _PREFIXES:
        if value >= limit * 0.9995:
            return f"{_three(value / limit)}{prefix} {what}/s"
    return f"{_three(value)} {what}/s"


def throughput_text(progress: TrainingProgress) -> str:
    """Return tokens per second, or samples if tokens are not counted; empty if neither is."""
    if progress.tokens_per_s is not None:
        return rate_text(progress.tokens_per_s, "tok")
    return "" if progress.samples_per_s is None else rate_text(progress.samples_per_s, "smp")


def _three(value: float) -> str:
    """Return three digits, never with an exponent."""
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
