"""Stacked bars of memory use, with the capacity as a line."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from torchdeck.cli.plan.preview.bars import flowed, legend, stacked_bar
from torchdeck.contract.plan.prediction import PredictedMemory
from torchdeck.plan.memory.fullness import MemoryPreview, ranks_text
from torchdeck.plan.preview.bars import capacity_in_sight, facts, magnified, most_needed, scale_of
from torchdeck.plan.preview.terms import by_family
from torchdeck.quantities import size

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
            Text(f"  nothing that was tried makes it fit; most is {next(iter(memory.decisive.terms))}")
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
