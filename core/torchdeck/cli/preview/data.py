"""Bars of what each rank reads, and how even it is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from rich.text import Text

from torchdeck.cli.palette import SERIES
from torchdeck.cli.preview.bars import bar
from torchdeck.plan.preview.data import DataPreview
from torchdeck.quantities import rate

SHOWN_RANKS = 8
"""With more ranks than these, five stand for all; one, where they are even."""
_LABEL = 20
_WHOLE = 100
"""From so many epochs on, fractions are not shown."""
_EVEN = 0.05
"""Percent from the mean that one decimal does not show."""


class Row(NamedTuple):
    """One bar."""

    label: str
    rank: int


def data_lines(data: DataPreview, width: int) -> list[Text]:
    """Where samples come from, the bars, the imbalance."""
    lines = [Text(f"  {source_line(data)}")]
    lines += _bar_lines(data, rows(data), width)
    lines.append(Text(f"  {evenness(data)}"))
    lines += [Text(f"  {line}", style="dim") for line in policy_lines(data)]
    return lines


def source_line(data: DataPreview) -> str:
    """`seeded order over 59,117 samples: 400 steps, 0.216 epochs of 1,848 steps`."""
    return (
        f"{data.source} over {data.size:,} samples: {_counted(data.steps, 'step')}, "
        f"{_epochs(data.epochs)} of {_counted(data.steps_per_epoch, 'step')}"
    )


def evenness(data: DataPreview) -> str:
    """`fullest rank ÷ mean 1.004 in tokens · padding 12 %`."""
    text = f"fullest rank ÷ mean: {data.imbalance:.3f} in {data.unit}"
    return text if data.padding is None else f"{text} · padding {data.padding * 100:.1f} %"


def policy_lines(data: DataPreview) -> list[str]:
    """The same under each balance: what steps wait for, and what ranks differ in when all is done."""
    return [
        f"balance {policy.name + ':':<10} {policy.slowest:.3f} a step, {policy.imbalance:.3f} "
        + ("in all" if policy.steps == data.steps else f"in the first {_counted(policy.steps, 'step')}")
        + ("   (chosen)" if policy.chosen else "")
        for policy in data.policies
    ]


def rows(data: DataPreview) -> list[Row]:
    """The bars to draw: each rank, and of too many the extremes and quarters."""
    load = data.load
    if len(load) <= SHOWN_RANKS:
        return [Row(f"rank {rank}", rank) for rank in range(len(load))]
    least, most = int(load.argmin()), int(load.argmax())
    if load[least] == load[most]:
        return [Row(f"each of {len(load):,} ranks", most)]
    if max(abs(_apart(data, least)), abs(_apart(data, most))) < _EVEN:
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


def amount(data: DataPreview, rank: int) -> str:
    """`819.2k tokens, 6,400 samples`."""
    text = f"{rate(float(data.load[rank]))} {data.unit}"
    return text if data.tokens is None else f"{text}, {_counted(int(data.samples[rank]), 'sample')}"


def deviation(data: DataPreview, rank: int) -> str:
    """How far from the mean: `+1.2 %`, or `even`."""
    apart = _apart(data, rank)
    return "even" if abs(apart) < _EVEN else f"{apart:+.1f} %"


def _apart(data: DataPreview, rank: int) -> float:
    """How far the load of a rank is from the mean, in percent of that."""
    load, mean = float(data.load[rank]), float(data.load.mean())
    return (load / mean - 1) * 100 if mean else 0.0


def _epochs(epochs: float) -> str:
    text = f"{epochs:,.0f}" if epochs >= _WHOLE else f"{epochs:.3g}"
    return f"{text} epoch{'' if text == '1' else 's'}"


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _bar_lines(data: DataPreview, shown: list[Row], width: int) -> list[Text]:
    """Bars of one scale, with columns of one width beside them."""
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
            f"  {text:>{first}}  {apart:>{second}}",
        )
        for row, text, apart in zip(shown, amounts, deviations, strict=True)
    ]
