"""Text bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from rich.text import Text

from torchdeck.cli.plan.lines import SERIES
from torchdeck.contract.plan.prediction import PredictedMemory
from torchdeck.plan.memory.fullness import MemoryPreview, ranks_text
from torchdeck.plan.preview.data_share import (
    EVEN,
    DataPreview,
    amount,
    apart,
    deviation,
    evenness,
    policy_lines,
    source_line,
)
from torchdeck.plan.preview.memory_bars import (
    TERMS,
    by_family,
    capacity_in_sight,
    facts,
    largest_part,
    magnified,
    most_needed,
    scale_of,
)
from torchdeck.quantities import size

_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(share: float, width: int, colour: str) -> Text:
    """Return a bar of `share` of `width` columns, to an eighth of one; padded to `width`."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    whole, rest = divmod(eighths, 8)
    text = "█" * whole + (_EIGHTHS[rest] if rest else "")
    if share > 0 and not text:
        text = _EIGHTHS[1]
    return Text.assemble((text, colour), " " * (width - len(text)))


def stacked_bar(parts: Mapping[str, int], scale: float, width: int, mark: float | None = None) -> Text:
    """Return terms one after the other, `scale` being the whole width; a line at `mark`.

    Args:
        parts: name of a term → its size, in order.
        scale: the value that `width` columns represent, in the unit of the parts.
        width: columns.
        mark: where a line is drawn, in the unit of the parts; None: nowhere.
    """
    columns: list[tuple[str, str]] = []
    signs = {term.name: (term.glyph, term.terminal) for term in TERMS}
    reached = 0.0
    for name, count in parts.items():
        reached += count
        columns += [signs[name]] * (round(reached / scale * width) - len(columns))
    columns = columns[:width]
    columns += [(" ", "")] * (width - len(columns))
    if mark is not None:
        columns[min(width - 1, round(mark / scale * width))] = ("│", "bold")
    return Text.assemble(*columns)


def legend(sizes: Mapping[str, str]) -> list[Text]:
    """Return one entry for each term of `sizes`: its sign, name and size, which may be empty."""
    entries = []
    for term in TERMS:
        if term.name in sizes:
            entry = Text.assemble((term.glyph * 2, term.terminal), f" {term.name}")
            entries.append(entry.append(f" {sizes[term.name]}", "bold") if sizes[term.name] else entry)
    return entries


def flowed(entries: list[Text], width: int, gap: int = 3) -> list[Text]:
    """Lay out `entries` side by side on as few lines of `width` columns as they need."""
    lines: list[Text] = []
    for entry in entries:
        if lines and lines[-1].cell_len + gap + entry.cell_len <= width:
            lines[-1].append(" " * gap).append_text(entry)
        else:
            lines.append(entry.copy())
    return lines


# Stacked bars of memory use, with the capacity as a line.

_LABEL = 20


def memory_lines(memory: MemoryPreview, width: int) -> list[Text]:
    """Return a bar for each group of ranks, the legend, and what would help."""
    shown = most_needed(memory)
    scale = scale_of(shown)
    lines = _bar_lines(shown, scale, width)
    if len(memory.groups) > len(shown):
        lines.append(Text(f"  and {len(memory.groups) - len(shown)} groups that need less", style="dim"))
    parts = by_family(memory.decisive.terms)
    entries = legend({name: size(count) for name, count in parts.items()})
    lines += [Text("  ").append_text(line) for line in flowed(entries, width - 2)]
    lines += [Text(f"  {line}", style="dim") for line in [magnified(shown, scale)] if line]
    lines += [Text(f"  {line}") for line in facts(memory)]
    lines += [Text(f"  → {change.sentence}") for change in memory.suggestions]
    if memory.verdict == "does not fit" and not memory.suggestions:
        lines.append(
            Text(
                "  no change that was tried makes it fit; the largest part is "
                f"{largest_part(memory.decisive)[0]}"
            )
        )
    return lines


def _bar_lines(groups: Sequence[PredictedMemory], scale: float, width: int) -> list[Text]:
    """Bars of one scale, with numbers in one column next to them."""
    label = max(_LABEL, *(len(ranks_text(group)) for group in groups))
    numbers = [_numbers(group, scale) for group in groups]
    beside = max(map(len, numbers))
    room = max(10, width - label - beside - 6)
    lines = []
    for group, text in zip(groups, numbers, strict=True):
        mark = float(group.capacity_bytes or 0) if capacity_in_sight(group, scale) else None
        stacked = stacked_bar(by_family(group.terms), scale, room, mark)
        lines.append(Text.assemble(f"  {ranks_text(group):<{label}}  ", stacked, f"  {text:>{beside}}"))
    return lines


def _numbers(group: PredictedMemory, scale: float) -> str:
    """Return peak and capacity; an arrow if the capacity is beyond the bar."""
    if group.capacity_bytes is None:
        return size(group.peak_bytes)
    sign = "│" if capacity_in_sight(group, scale) else "→"
    return f"{size(group.peak_bytes)} {sign} {size(group.capacity_bytes)}"


# Bars of what each rank reads, and how evenly.

SHOWN_RANKS = 8
"""Ranks that are shown individually. With more, five represent all; one, if they are even."""


class Row(NamedTuple):
    """One bar."""

    label: str
    rank: int


def data_lines(data: DataPreview, width: int) -> list[Text]:
    """Return the sources of samples, the bars, and the imbalance."""
    lines = [Text(f"  {source_line(data)}")]
    lines += _data_lines(data, rows(data), width)
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


def _data_lines(data: DataPreview, shown: list[Row], width: int) -> list[Text]:
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
