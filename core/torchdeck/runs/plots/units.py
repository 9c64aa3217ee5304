"""Numbers on axes and in legends: tick steps, and texts with units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from torchdeck.quantities import brief, metric, size
from torchdeck.runs.training_progress import TrainingProgress

Unit = Literal["", "bytes", "bytes/s", "s", "%", "tok/s", "smp/s", "loss", "°C", "W", "count"]

_BARE = ("", "loss")
"""Kinds of numbers without a unit; a loss is formatted as everywhere else."""
_Prefixes = tuple[tuple[float, str], ...]
_SI: _Prefixes = (
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "µ"),
    (1e-9, "n"),
)
_BINARY: _Prefixes = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))


def tick_step(span: float, most: int, unit: Unit = "", largest: float = 0.0) -> float:
    """Return the smallest step of 1, 2 or 5 × 10^n with at most `most` steps in `span`.

    For bytes: in units of the binary prefix of `largest`, the greatest value on the axis.
    """
    if not span > 0 or not math.isfinite(span):
        return 1.0
    rough = span / max(most, 1)
    base = 1.0
    if unit in ("bytes", "bytes/s"):
        base = next((limit for limit, _ in _BINARY if max(largest, span) >= limit), 1.0)
    decade = 10.0 ** math.floor(math.log10(rough / base))
    factor = next(
        (factor for factor in (1.0, 2.0, 5.0, 10.0) if factor * decade * base >= rough * (1 - 1e-9)), 10.0
    )
    step = factor * decade * base
    return max(step, 1.0) if unit == "count" else step


def tick_values(low: float, high: float, step: float) -> list[float]:
    """Return multiples of `step` from `low` to `high`."""
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, min(last, first + 200) + 1)]


def tick_labels(values: Sequence[float], step: float, unit: Unit) -> list[str]:
    """Return the tick labels: one prefix for all, enough decimals to differ, and a unit on the last."""
    largest = max((abs(value) for value in values), default=0.0)
    prefixes = _BINARY if unit in ("bytes", "bytes/s") else _SI
    if unit == "%" or unit == "°C":
        prefixes = ((1.0, ""),)
    scale, prefix = next(((s, p) for s, p in prefixes if largest >= s * (1 - 1e-9)), prefixes[-1])
    if prefixes is _SI and unit in (*_BARE, "count", "tok/s", "smp/s") and 1e-3 <= largest < 1e4:
        scale, prefix = 1.0, ""
    if unit in _BARE and scale < 1 and step >= 1e-6:
        scale, prefix = 1.0, ""
    decimals = max(0, -math.floor(math.log10(step / scale) + 1e-9)) if step > 0 else 0
    if decimals > 6:
        return [f"{value:.3g}" for value in values]
    tail = _tail(unit, prefix)
    if prefix and tail == prefix:  # 0, not 0k
        return ["0" if value == 0 else f"{value / scale:,.{decimals}f}{tail}" for value in values]
    return [_zero(f"{value / scale:,.{decimals}f}") + tail for value in values]


def _tail(unit: Unit, prefix: str) -> str:
    if unit in ("bytes", "bytes/s"):
        return f" {prefix}" + ("/s" if unit == "bytes/s" else "")
    if unit in ("s", "W"):
        return f" {prefix}{unit}"
    return f" {unit}" if unit in ("%", "°C") else prefix


def _zero(text: str) -> str:
    return text[1:] if text.startswith("-") and not text.strip("-0.,") else text


def log_ticks(low: float, high: float) -> list[float]:
    """Return powers of ten from `low` to `high`, with 2 and 5 between if there are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    stride = max(1, (last - first) // 8)
    factors = (1.0,) if last - first > 3 else (1.0, 2.0, 5.0)
    ticks = [f * 10.0**n for n in range(first, last + 1, stride) for f in factors]
    return [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]


def value_text(value: float, unit: Unit) -> str:
    """Return one value in readable form: `2.413`, `12.4k/s`, `38.2 GiB`, `512 ms`."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+∞" if value > 0 else "−∞"
    if unit == "bytes":
        return size(value)
    if unit == "bytes/s":
        return f"{size(value)}/s"
    if unit == "s":
        return brief(value) if value >= 0 else f"{value:.3g} s"
    if unit in ("%", "°C", "W"):
        return f"{value:.0f} {unit}" if abs(value) >= 10 else f"{value:.1f} {unit}"
    if unit in ("tok/s", "smp/s"):
        return rate_text(value, unit.removesuffix("/s"))
    return metric(value) if unit == "loss" else plain(value)


def plain(value: float) -> str:
    """Return four significant digits: `0.0123`, `2.413`, `1,240`, `12.4k`, `3e-05`."""
    size_of = abs(value)
    if value == round(value) and size_of < 1e4:
        return f"{value:,.0f}"
    if size_of >= 1e15 or 0 < size_of < 1e-4:
        return f"{value:.3g}"
    for limit, prefix in _SI[:3] if size_of >= 1e6 else _SI[3:4]:
        if size_of >= max(limit, 1e4):
            return f"{value / limit:.4g}{prefix}"
    return f"{value:.4g}"


# Texts of training rates, in one format everywhere.

_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def rate_text(value: float, what: str) -> str:
    """Return a rate with three digits: `1.24k tok/s`, `940 smp/s`, `0.75 smp/s`.

    Args:
        value: rate per second.
        what: `tok`, `smp` or `steps`.
    """
    if not math.isfinite(value):
        return f"{metric(value)} {what}/s"
    for limit, prefix in _PREFIXES:
        if value >= limit * 0.9995:
            return f"{_three(value / limit)}{prefix} {what}/s"
    return f"{_three(value)} {what}/s"


def throughput_text(progress: TrainingProgress) -> str:
    """Return tokens per second, or samples, or steps, whichever is counted first; empty if none is."""
    counts = (
        (progress.tokens_per_s, "tok"),
        (progress.samples_per_s, "smp"),
        (progress.steps_per_s, "steps"),
    )
    return next((rate_text(value, what) for value, what in counts if value is not None), "")


def _three(value: float) -> str:
    """Return three digits, never with an exponent."""
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
