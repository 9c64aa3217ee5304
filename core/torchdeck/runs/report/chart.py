"""Line chart as SVG text: one line per run, axes with round numbers, and a legend."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import NamedTuple

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C7A00", "#1f2328")
"""Okabe–Ito, the yellow darker for white paper."""
DASHES = ("", "6 3", "2 3")
"""Lines of more runs than colours differ by these."""
_WIDTH, _HEIGHT = 460, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 12, 26, 28
_TICKS = 5
_SPREAD = 0.05
"""Share of the range that is free above and below the lines."""

_MOST = 1e300
"""Greater values are drawn as this one, so that the range is a number, too."""
_LEAST = 1e-280
"""Values that differ by less are drawn as equal."""

Point = tuple[float, float]


class Line(NamedTuple):
    """Points of one run from left to right; those that are not finite interrupt it."""

    label: str
    points: Sequence[Point]


def chart(title: str, lines: Sequence[Line], colours: Sequence[int] | None = None) -> str:
    """Return an SVG element; empty if no line has a finite point.

    Args:
        title: name of the metric.
        lines: one per run.
        colours: number of each line's colour; default: their order.
    """
    lines = [Line(line.label, [(_cut(x), _cut(y)) for x, y in line.points]) for line in lines]
    known = [point for line in lines for point in line.points if _is_finite(point)]
    if not known:
        return ""
    x0, x1 = _range(x for x, _ in known)
    y0, y1 = _range(y for _, y in known)
    spread = (y1 - y0) * _SPREAD
    scale = _Scale(x0, x1, y0 - spread, y1 + spread)
    numbers = range(len(lines)) if colours is None else colours
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">',
        f'<text class="title" x="{_LEFT}" y="16">{escape(title)}</text>',
        *_axes(scale),
        *(path for line, number in zip(lines, numbers, strict=True) for path in _path(line, scale, number)),
        "</svg>",
    ]
    return "".join(parts)


def stroke(number: int) -> str:
    """Return the SVG attributes of a line by its number."""
    dash = DASHES[number // len(COLOURS) % len(DASHES)]
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'stroke="{COLOURS[number % len(COLOURS)]}"{dashes}'


def ticks(low: float, high: float, most: int = _TICKS) -> list[float]:
    """Return round numbers between two ends, about `most` of them; `low` < `high`."""
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def number_text(value: float) -> str:
    """Return a tick's text: `0.25`, `12k`, `1e-05`."""
    if 1e4 <= abs(value) < 1e15:
        for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if abs(value) >= limit:
                return f"{value / limit:.4g}{unit}"
    return f"{value:.4g}"


class _Scale(NamedTuple):
    x0: float
    x1: float
    y0: float
    y1: float

    def x(self, value: float) -> float:
        return _LEFT + (value - self.x0) / (self.x1 - self.x0) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return _HEIGHT - _BOTTOM - (value - self.y0) / (self.y1 - self.y0) * (_HEIGHT - _TOP - _BOTTOM)


def _range(values: Iterable[float]) -> tuple[float, float]:
    """Return the ends, apart from each other."""
    known = list(values)
    low, high = min(known), max(known)
    if high - low > max(1e-12 * max(abs(low), abs(high)), _LEAST):
        return low, high
    pad = abs(low) * 0.1 if abs(low) > 10 * _LEAST else 1.0
    return low - pad, high + pad


def _cut(value: float) -> float:
    return max(-_MOST, min(value, _MOST)) if math.isfinite(value) else value


def _axes(scale: _Scale) -> Iterator[str]:
    for value in ticks(scale.y0, scale.y1):
        y = scale.y(value)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        at = f'text-anchor="end" x="{_LEFT - 6}" y="{y + 4:.1f}"'
        yield f'<text class="tick" {at}>{number_text(value)}</text>'
    for value in ticks(scale.x0, scale.x1):
        x, y = scale.x(value), _HEIGHT - _BOTTOM + 16
        yield f'<text class="tick" text-anchor="middle" x="{x:.1f}" y="{y}">{number_text(value)}</text>'


def _path(line: Line, scale: _Scale, number: int) -> Iterator[str]:
    runs: list[list[str]] = [[]]
    for point in line.points:
        if _is_finite(point):
            runs[-1].append(f"{scale.x(point[0]):.1f},{scale.y(point[1]):.1f}")
        elif runs[-1]:
            runs.append([])
    for points in filter(None, runs):
        if len(points) == 1:
            x, y = points[0].split(",")
            yield f'<circle cx="{x}" cy="{y}" r="2" fill="{COLOURS[number % len(COLOURS)]}"/>'
        else:
            yield f'<polyline fill="none" {stroke(number)} points="{" ".join(points)}"/>'


def _is_finite(point: Point) -> bool:
    return math.isfinite(point[0]) and math.isfinite(point[1])
