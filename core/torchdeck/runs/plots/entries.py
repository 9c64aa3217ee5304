"""Values of a plot's series: the newest ones, and those at one x."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from torchdeck.runs.plots.exchange import Array, Band, Curve, PlotData
from torchdeck.runs.plots.units import Unit, value_text


@dataclass(frozen=True)
class Entry:
    """Line of the legend."""

    label: str
    colour: int
    text: str
    """Value with its unit; empty if there is none."""
    value: float | None = None
    short: str = ""
    """Label without the run's name, if the label includes it."""


def latest(data: PlotData, unit: Unit) -> list[Entry]:
    """Return the newest value of each series."""
    found = [
        Entry(
            curve.label,
            curve.colour,
            "" if curve.latest is None else value_text(curve.latest, unit),
            curve.latest,
            curve.short,
        )
        for curve in data.curves
    ]
    for band in data.bands:
        if len(band.x):
            found += _of_band(band, len(band.x) - 1, unit, several=len(data.bands) > 1)
    return found


def at(data: PlotData, x: float, unit: Unit) -> list[Entry]:
    """Return the values at `x`, each from the series' nearest row."""
    found = []
    for curve in data.curves:
        value = _value_at(curve, x)
        found.append(
            Entry(
                curve.label,
                curve.colour,
                "" if value is None else value_text(value, unit),
                value,
                curve.short,
            )
        )
    for band in data.bands:
        if len(band.x):
            found += _of_band(band, nearest(band.x, x), unit, several=len(data.bands) > 1)
    return found


def nearest_member(data: PlotData, x: float, y: float) -> tuple[Band, int] | None:
    """Return the single series of a band nearest to a point."""
    best: tuple[float, Band, int] | None = None
    for band in data.bands:
        if not len(band.x):
            continue
        column = band.values[:, nearest(band.x, x)]
        if not np.isfinite(column).any():
            continue
        member = int(np.nanargmin(np.abs(column - y)))
        distance = abs(float(column[member]) - y)
        if best is None or distance < best[0]:
            best = (distance, band, member)
    return None if best is None else best[1:]


def nearest(x: Array, to: float) -> int:
    """Return the index of the nearest x; x ascends and is not empty."""
    after = int(np.searchsorted(x, to))
    if after == 0:
        return 0
    if after >= len(x):
        return len(x) - 1
    return after if x[after] - to < to - x[after - 1] else after - 1


def _of_band(band: Band, column: int, unit: Unit, *, several: bool) -> list[Entry]:
    tail = f" {band.label}" if several else ""
    if band.spread:
        parts = [("mean", band.median), ("mean + deviation", band.high), ("mean − deviation", band.low)]
    else:
        parts = [("median", band.median), (_greatest(band, column), band.high), ("min", band.low)]
    return [
        Entry(f"{name}{tail}", band.colour, value_text(float(line[column]), unit), float(line[column]))
        for name, line in parts
    ]


def _greatest(band: Band, column: int) -> str:
    """Return the name of the maximum, with the member that has it."""
    values = band.values[:, column]
    if not np.isfinite(values).any():
        return "max"
    return f"max ({band.members[int(np.where(np.isnan(values), -np.inf, values).argmax())]})"


def _value_at(curve: Curve, x: float) -> float | None:
    if not len(curve.x):
        return None
    value = float(curve.y[nearest(curve.x, x)])
    return value if np.isfinite(value) else float("nan")
