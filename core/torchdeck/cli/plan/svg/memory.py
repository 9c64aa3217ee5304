"""Stacked bars of memory, with the capacity as a line."""

from __future__ import annotations

from torchdeck.cli.plan.svg.canvas import Canvas
from torchdeck.cli.plan.svg.style import BODY, LINE
from torchdeck.cli.plan.svg.text import text_width, wrapped
from torchdeck.contract.plan.prediction import PredictedMemory
from torchdeck.plan.memory.fullness import MemoryPreview, ranks_text
from torchdeck.plan.preview.bars import by_family, capacity_in_sight, facts, magnified, most_needed, scale_of
from torchdeck.quantities import size

_LABEL = 170
_NUMBERS = 170
_BAR = 18
_ROW = 32
_LEGEND = 12
_RANGE = 3
"""Height of the line below a bar, from the least to the most expected."""


def draw_memory(canvas: Canvas, memory: MemoryPreview, x: float, y: float, width: float) -> float:
    """Draw below `y`; return the height that it takes."""
    top = y
    shown = most_needed(memory)
    scale = scale_of(shown)
    for group in shown:
        _bar(canvas, group, scale, x, top, width)
        top += _ROW
    if len(memory.groups) > len(shown):
        more = f"and {len(memory.groups) - len(shown)} groups that need less"
        canvas.text(x, top + BODY, more, "dim")
        top += LINE
    top += _legend(canvas, memory.decisive, x, top, width)
    capacity = any(capacity_in_sight(group, scale) for group in shown)
    top += _marks(canvas, x, top, capacity=capacity)
    if enlarged := magnified(shown, scale):
        canvas.text(x, top + BODY, f"{enlarged}, and the capacity lies far beyond", "dim")
        top += LINE
    for text in [*facts(memory), *(f"→ {change.sentence}" for change in memory.suggestions)]:
        for line in wrapped(text, BODY, width):
            canvas.text(x, top + BODY, line)
            top += LINE
    return top - y


def _bar(canvas: Canvas, group: PredictedMemory, scale: float, x: float, y: float, width: float) -> None:
    left, room = x + _LABEL + 12, width - _LABEL - _NUMBERS - 24
    canvas.text(x, y + 15, ranks_text(group), "dim", room=_LABEL)
    canvas.rect(left, y + 2, room, _BAR, "track", radius=3)
    reached = 0.0
    for name, count in by_family(group.terms).items():
        part = count / scale * room
        canvas.rect(left + reached, y + 2, part, _BAR, f"t-{name}", title=f"{name}: {size(count)}")
        reached += part
    low, high = group.low_bytes / scale * room, min(group.high_bytes / scale * room, room)
    expected = f"expected from {size(group.low_bytes)} to {size(group.high_bytes)}"
    canvas.rect(left + low, y + _BAR + 4, max(1.0, high - low), _RANGE, "text", title=expected)
    numbers = size(group.peak_bytes)
    if group.capacity_bytes:
        numbers += f" of {size(group.capacity_bytes)}"
        if capacity_in_sight(group, scale):
            at = left + group.capacity_bytes / scale * room
            canvas.vertical(at, y - 2, y + _BAR + 6)
    canvas.text(x + width, y + 15, numbers, "text bold", room=_NUMBERS, anchor="end")


def _legend(canvas: Canvas, group: PredictedMemory, x: float, y: float, width: float) -> float:
    left, top = x, y + 4
    for name, count in by_family(group.terms).items():
        label = f"{name} {size(count)}"
        needed = 20 + text_width(label, _LEGEND)
        if left > x and left + needed > x + width:
            left, top = x, top + LINE
        canvas.rect(left, top + 2, 12, 12, f"t-{name}", radius=2)
        canvas.text(left + 18, top + _LEGEND + 0.5, label, size=_LEGEND)
        left += needed + 14
    return top - y + LINE + 6


def _marks(canvas: Canvas, x: float, y: float, *, capacity: bool) -> float:
    """Draw the meaning of the lines next to a bar; return the height it takes."""
    left, base = x, y + _LEGEND - 2
    canvas.rect(left, base - 5, 12, _RANGE, "text")
    label = "where the peak is expected"
    canvas.text(left + 18, base, label, "dim", size=_LEGEND)
    if capacity:
        left += 18 + text_width(label, _LEGEND) + 20
        canvas.vertical(left, base - 11, base + 2)
        canvas.text(left + 8, base, "capacity of the device", "dim", size=_LEGEND)
    return LINE
