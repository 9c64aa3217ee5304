"""Human-readable numbers."""

from __future__ import annotations

import math
import time

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size(count: float) -> str:
    """Format bytes: `512 B`, `1.5 GiB`."""
    for unit in _UNITS:
        if count < 1024 or unit == _UNITS[-1]:
            break
        count /= 1024
    return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"


def counted(number: int, thing: str) -> str:
    """Format a number of things: `1 step`, `1,848 steps`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def rate(value: float) -> str:
    """Format a number per second, shortened: `940`, `12.3k`, `1.2M`."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= limit:
            return f"{value / (1e3 if unit == 'k' else limit):.1f}{unit}"
    return f"{value:.0f}"


def epochs(count: float) -> str:
    """Format a number of epochs with three digits: `0.042`, `2`, `12.5`, `1,240`."""
    return f"{count:.3g}" if count < 99.95 else f"{count:,.0f}"


def duration(seconds: float) -> str:
    """Format seconds: `42 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    whole = round(max(0.0, seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def brief(seconds: float) -> str:
    """Format a short time with three digits: `0.25 ms`, `512 ms`, `1.12 s`; a longer one as `duration`
    does.
    """
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 60 else duration(seconds)


def moment(unix: float | None) -> str:
    """Format local date and time; a dash for None."""
    return "-" if unix is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(unix))


def ago(seconds: float) -> str:
    """Format an age by its largest unit: `now`, `42 s ago`, `3 min ago`, `5 h ago`, `12 d ago`."""
    if seconds < 1:
        return "now"
    for limit, unit, length in ((60, "s", 1), (3600, "min", 60), (86400, "h", 3600)):
        if seconds < limit:
            return f"{int(seconds / length)} {unit} ago"
    return f"{int(seconds / 86400)} d ago"


def metric(value: float) -> str:
    """Format a measured value such as a loss: `2.3142`, `1.200e-05`, `NaN`, `∞`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e5 else f"{value:.3e}"
