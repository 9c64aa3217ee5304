"""Bars of what each rank reads, and how evenly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from rich.text import Text

from torchdeck.cli.plan.preview.bars import bar
from torchdeck.cli.plan.preview.glyphs import SERIES
from torchdeck.plan.preview.data import (
    EVEN,
    DataPreview,
    amount,
    apart,
    deviation,
    evenness,
    policy_lines,
    source_line,
)

SHOWN_RANKS = 8
"""Ranks that are shown individually. With more, five represent all; one, if they are even."""
_LABEL = 20


class Row(NamedTuple):
    """One bar."""

    label: str
    rank: int


def data_lines(data: DataPreview, width: int) -> list[Text]:
    """Return the sources of samples, the bars, and the imbalance."""
    lines = [Text(f"  {source_line(data)}")]
    lines += _bar_lines(data, rows(data), width)
    lines.append(Text(f"  {evenness(data)}"))
    lines += [Text(f"  {line}", style="dim") for line in policy_lines(data)]
    return lines


def rows(data: DataPreview) -> list[Row]:
    """Return the bars to draw: each rank, or the extremes and quartiles if there are too many."""
    load = data.load
    if len(load) <= SHOWN_RANKS:
        return [Row(f"rank {rank}", rank) for rank in range(len(load))]
    least, most = int(load.argmin()), int(load.argmax())
    if load[least] == load[most]:
        return [Row(f"each of {len(load):,} ranks", most)]
    if max(abs(apart(data, least)), abs(apart(data, most))) < EVEN:
        return [Row(f"fullest of {len(load):,} ranks", most)]
    order = np.argsort(load, kind="stable")
    last = len(load) - 1
    places = {
        "least": 0,
        "quarter": last // 4,
        "median": last // 2,
        "3 quarters": last * 3 // 4,
        "most": last,
    }
    return [Row(f"{name}: rank {order[place]}", int(order[place])) for name, place in places.items()]


def _bar_lines(data: DataPreview, shown: list[Row], width: int) -> list[Text]:
    """Bars of one scale, with columns of equal width next to them."""
    label = max(_LABEL, *(len(row.label) for row in shown))
    amounts = [amount(data, row.rank) for row in shown]
    deviations = [deviation(data, row.rank) for row in shown]
    first, second = max(map(len, amounts)), max(map(len, deviations))
    room = max(8, width - label - first - second - 8)
    most = float(data.load.max()) or 1.0
    return [
        Text.assemble(
            f"  {row.label:<{label}}  ",
            bar(float(data.load[row.rank]) / most, room, SERIES),
            f"  {text:>{first}}  {away:>{second}}",
        )
        for row, text, away in zip(shown, amounts, deviations, strict=True)
    ]
