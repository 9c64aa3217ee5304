"""Memory use of each device, and changes that reduce it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchdeck.contract.plan.prediction import PredictedMemory, Prediction

if TYPE_CHECKING:
    from torchdeck.plan.memory.suggest import Suggestion

SERIOUSNESS = ("fits", "unknown", "tight", "does not fit")
"""Verdicts, the least serious first."""


@dataclass(frozen=True)
class MemoryPreview:
    """Groups of ranks with equal requirements; at least one."""

    source: str
    """`traced`, or `closed form` for an estimate from a few numbers."""
    groups: tuple[PredictedMemory, ...]
    suggestions: tuple[Suggestion, ...] = ()
    """Suggestions, the cheapest first; none if all fits."""

    @property
    def fullest(self) -> PredictedMemory:
        """Group nearest to its capacity, or the largest if no capacity is known."""
        return max(self.groups, key=lambda group: (fullness(group) or 0.0, group.peak_bytes))

    @property
    def verdict(self) -> str:
        """Most serious verdict of all groups."""
        return max((group.verdict for group in self.groups), key=SERIOUSNESS.index)

    @property
    def decisive(self) -> PredictedMemory:
        """Fullest of the groups with that verdict."""
        worst = [group for group in self.groups if group.verdict == self.verdict]
        return max(worst, key=lambda group: (fullness(group) or 0.0, group.peak_bytes))


def fullness(memory: PredictedMemory) -> float | None:
    """Return expected peak ÷ capacity."""
    return memory.peak_bytes / memory.capacity_bytes if memory.capacity_bytes else None


def ranks_text(group: PredictedMemory) -> str:
    """Return `rank 0`, `ranks 0–7`, `ranks 0–6, 8–14`, `56 ranks (0–6 …)`."""
    ranges = [str(first) if first == last else f"{first}–{last}" for first, last in group.ranks[:2]]
    if len(group.ranks) > len(ranges):
        return f"{sum(last - first + 1 for first, last in group.ranks):,} ranks ({ranges[0]} …)"
    return f"rank{'' if is_one(group) else 's'} {', '.join(ranges)}"


def is_one(group: PredictedMemory) -> bool:
    """Return whether it is a single rank."""
    return len(group.ranks) == 1 and group.ranks[0][0] == group.ranks[0][1]


def make_memory(prediction: Prediction) -> MemoryPreview | None:
    """Return the memory part of `prediction`, without suggestions; None if it has none."""
    if not prediction.memory:
        return None
    return MemoryPreview(prediction.source, prediction.memory)
