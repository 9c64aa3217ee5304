"""Stacked bars of what memory is needed for, with the capacity as a line."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from torchdeck.cli.palette import FAMILIES, by_family
from torchdeck.cli.preview.bars import flowed, legend, stacked_bar
from torchdeck.plan.prediction import PredictedMemory
from torchdeck.plan.preview.memory import MemoryPreview, ranks_text
from torchdeck.quantities import size

SHOWN_GROUPS = 6
_MAGNIFIED_BELOW = 0.1
"""A device filled less than this is not drawn to its whole width: there would be nothing to see."""
_LABEL = 20
_WORTH_NAMING = 0.01


def memory_lines(memory: MemoryPreview, width: int) -> list[Text]:
    """A bar for each group of ranks, the legend, and what would help."""
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


def facts(memory: MemoryPreview) -> list[str]:
    """When the peak is, and between what it is expected."""
    group = memory.decisive
    peak = f"peak in {group.phase}"
    if size(group.high_bytes) != size(group.peak_bytes):
        peak += f", {size(group.high_bytes)} at most"
    lines = [f"{peak}; {size(sum(group.state.values()))} of it stays between steps"]
    inside = [
        f"{name} {size(count)}"
        for name, count in group.terms.items()
        if name in FAMILIES and count > _WORTH_NAMING * group.peak_bytes
    ]
    if inside:
        lines.append(f"counted among activations: {', '.join(inside)}")
    if group.free_bytes is not None and group.free_bytes < group.high_bytes:
        lines.append(f"only {size(group.free_bytes)} are free now: something else uses the device")
    return lines


def most_needed(memory: MemoryPreview) -> list[PredictedMemory]:
    """The groups that a bar is drawn for, those that need most first."""
    return sorted(memory.groups, key=lambda group: -group.peak_bytes)[:SHOWN_GROUPS]


def magnified(groups: Sequence[PredictedMemory], scale: float) -> str:
    """That bars of `scale` bytes end before any capacity; empty where they do not, or none is known."""
    if any(capacity_in_sight(group, scale) for group in groups) or not any(g.capacity_bytes for g in groups):
        return ""
    return f"bars are magnified: their whole width is {size(scale)}"


def capacity_in_sight(group: PredictedMemory, scale: float) -> bool:
    """Whether a bar of `scale` bytes reaches to the group's capacity."""
    return group.capacity_bytes is not None and group.capacity_bytes <= scale


def scale_of(groups: Sequence[PredictedMemory]) -> float:
    """Bytes that a whole bar stands for."""
    most = max(group.high_bytes for group in groups)
    capacity = max((group.capacity_bytes or 0) for group in groups)
    return most if most < capacity * _MAGNIFIED_BELOW or not capacity else max(most, capacity) * 1.02


def _bar_lines(groups: Sequence[PredictedMemory], scale: float, width: int) -> list[Text]:
    """Bars of one scale, with numbers in one column beside them."""
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
    """Peak and capacity; an arrow where the capacity is beyond the bar."""
    if group.capacity_bytes is None:
        return size(group.peak_bytes)
    sign = "│" if capacity_in_sight(group, scale) else "→"
    return f"{size(group.peak_bytes)} {sign} {size(group.capacity_bytes)}"
