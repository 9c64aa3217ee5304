"""X axis shared by all plots, and its ticks."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Literal

from torchdeck.quantities import brief, duration
from torchdeck.runs.plots.units import log_ticks, plain, tick_labels, tick_step, tick_values

XKind = Literal["step", "relative", "wall", "tokens", "samples"]
X_NAMES: dict[XKind, str] = {
    "step": "Step",
    "relative": "Elapsed time",
    "wall": "Time of day",
    "tokens": "Tokens",
    "samples": "Samples",
}
_SECONDS = (
    *(1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10800, 21600, 43200),
    *(86400, 172800, 604800),
)


def by_time(kind: XKind) -> bool:
    """Return whether x is a time."""
    return kind in ("relative", "wall")


def x_ticks(kind: XKind, low: float, high: float, most: int, *, log: bool) -> list[tuple[float, str]]:
    """Return (x, text) of each tick."""
    if not high > low:
        return [(low, x_text(kind, low))]
    if log and low > 0 and kind != "wall":
        ticks = log_ticks(low, high)[:: max(1, len(log_ticks(low, high)) // max(most, 1))]
        return [(tick, brief(tick) if kind == "relative" else plain(tick)) for tick in ticks]
    if by_time(kind):
        return _time_ticks(kind, low, high, most)
    step = tick_step(high - low, most, "count")
    values = tick_values(low, high, step)
    return list(zip(values, tick_labels(values, step, "count"), strict=True))


def x_text(kind: XKind, x: float) -> str:
    """Return x as shown in the legend: `step 12,400`, `2 min 3 s`, `14:03:22`."""
    if kind == "wall":
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(x))
    if kind == "relative":
        return duration(x) if abs(x) >= 10 else f"{x:.2f} s"
    return f"{kind} {x:,.0f}"


def _time_ticks(kind: XKind, low: float, high: float, most: int) -> list[tuple[float, str]]:
    rough = (high - low) / max(most, 1)
    if rough < 1:
        step = tick_step(high - low, most)
    else:
        step = next((float(seconds) for seconds in _SECONDS if seconds >= rough), 0.0)
        step = step or 604800 * math.ceil(rough / 604800)
    offset = time.localtime(low).tm_gmtoff if kind == "wall" else 0
    values = [value - offset for value in tick_values(low + offset, high + offset, step)]
    return [(value, _clock(value, step) if kind == "wall" else _since(value, step)) for value in values]


def _clock(value: float, step: float) -> str:
    local = time.localtime(value)
    if step >= 86400:
        return time.strftime("%b %d", local)
    if step < 1:
        return time.strftime("%H:%M:%S", local) + f"{value % 1:.3f}"[1:]
    return time.strftime("%H:%M" if step >= 60 else "%H:%M:%S", local)


def _since(value: float, step: float) -> str:
    if step < 1:
        return f"{value:.3g} s"
    whole = round(value)
    if step >= 86400:
        return f"{whole // 86400} d"
    if step >= 3600:
        return f"{whole // 3600} h"
    if step >= 60:
        return f"{whole // 60} min" if whole < 7200 else f"{whole // 3600}:{whole % 3600 // 60:02} h"
    return f"{whole} s" if whole < 120 else f"{whole // 60}:{whole % 60:02} min"


@dataclass(frozen=True)
class Across:
    """Quantity on the x axis and its range."""

    kind: XKind
    low: float
    high: float
    log: bool = False
