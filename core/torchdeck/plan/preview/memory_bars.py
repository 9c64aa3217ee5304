"""Content of stacked memory bars: the groups, the scale, and the captions below them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torchdeck.contract.plan.prediction import PredictedMemory
from torchdeck.plan.memory.fullness import SERIOUSNESS, MemoryPreview, fullness
from torchdeck.quantities import size

SHOWN_GROUPS = 6
_MAGNIFIED_BELOW = 0.1
"""A device filled less than this is not drawn to full scale: nothing would be visible."""
_WORTH_NAMING = 0.01


def facts(memory: MemoryPreview) -> list[str]:
    """Return the phase of the peak and its expected range."""
    group = memory.decisive
    peak = f"peak in {group.phase}"
    if size(group.high_bytes) != size(group.peak_bytes):
        least = f"{size(group.low_bytes)} at least, " if group.low_bytes < group.peak_bytes else ""
        peak += f", {least}{size(group.high_bytes)} at most"
    lines = [f"{peak}; {size(sum(group.state.values()))} of it is kept between steps"]
    inside = [
        f"{name} {size(count)}"
        for name, count in group.terms.items()
        if name in FAMILIES and count > _WORTH_NAMING * group.peak_bytes
    ]
    if inside:
        lines.append(f"counted among activations: {', '.join(inside)}")
    if group.free_bytes is not None and group.free_bytes < group.high_bytes:
        lines.append(f"only {size(group.free_bytes)} is free now: another process uses the device")
    return lines


def most_needed(memory: MemoryPreview, count: int = SHOWN_GROUPS) -> list[PredictedMemory]:
    """Return the groups that get a bar, the decisive one first: by verdict, then by how full devices are."""

    def need(group: PredictedMemory) -> tuple[int, float, int]:
        return SERIOUSNESS.index(group.verdict), fullness(group) or 0.0, group.peak_bytes

    return sorted(memory.groups, key=need, reverse=True)[:count]


def magnified(groups: Sequence[PredictedMemory], scale: float) -> str:
    """Return a note that bars of `scale` bytes end before any capacity; empty if they do not, or if no
    capacity is known.
    """
    if any(capacity_in_sight(group, scale) for group in groups) or not any(g.capacity_bytes for g in groups):
        return ""
    return f"bars are magnified: their full width is {size(scale)}"


def capacity_in_sight(group: PredictedMemory, scale: float) -> bool:
    """Return whether a bar of `scale` bytes reaches the group's capacity."""
    return group.capacity_bytes is not None and group.capacity_bytes <= scale


def scale_of(groups: Sequence[PredictedMemory]) -> float:
    """Return the bytes that a full bar represents."""
    most = max(group.high_bytes for group in groups)
    capacity = max((group.capacity_bytes or 0) for group in groups)
    return most if most < capacity * _MAGNIFIED_BELOW or not capacity else max(most, capacity) * 1.02


# The six parts of memory, in the same colours on a terminal, in a picture and in the window.
#
# Colours: Okabe and Ito, "Color Universal Design", 2008; distinct with any colour vision. On light
# backgrounds some are replaced by darker shades, so that all have a contrast of 3:1 there.


class Term(NamedTuple):
    """One part of a stacked memory bar."""

    name: str
    light: str
    """Colour on a light background, as #rrggbb."""
    dark: str
    terminal: str
    """Colour between the two: a terminal's background is unknown."""
    glyph: str
    """Glyph that identifies it without colour."""


TERMS: tuple[Term, ...] = (
    Term("parameters", "#0072b2", "#3d9be0", "#2a8ad4", "█"),
    Term("gradients", "#b87f00", "#e69f00", "#d18f00", "▓"),
    Term("optimizer", "#008f68", "#1fb88d", "#12a67c", "▒"),
    Term("gathered", "#b5548a", "#d48db5", "#c77aa5", "▞"),
    Term("activations", "#2f8fc4", "#7cc7f2", "#4cabe0", "░"),
    Term("other", "#7d828b", "#8a8f98", "#8a8f98", "·"),
)

FAMILIES: Mapping[str, str] = {"logits": "activations", "kernels": "activations"}
"""Prediction terms that count as another of `TERMS`; any unlisted term is `other`."""

VERDICT_SIGNS: Mapping[str, str] = {"fits": "✓", "tight": "◐", "does not fit": "✕", "unknown": "?"}
"""Symbol of each verdict, so that colour is never the only sign."""


def family_of(name: str) -> str:
    """Return which of `TERMS` a prediction's term counts as."""
    family = FAMILIES.get(name, name)
    return family if any(term.name == family for term in TERMS) else "other"


def by_family(terms: Mapping[str, int]) -> dict[str, int]:
    """Return the bytes of each of `TERMS`, in their order, without those of 0 bytes."""
    sums = {term.name: 0 for term in TERMS}
    for name, count in terms.items():
        sums[family_of(name)] += count
    return {name: count for name, count in sums.items() if count > 0}


def largest_part(group: PredictedMemory) -> tuple[str, int]:
    """Return the largest of `TERMS` in a prediction and its bytes, as the bars show it."""
    return max(by_family(group.terms).items(), key=lambda part: part[1], default=("nothing", 0))
