"""Stacked bar in pixels. No Qt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torchdeck.contract.plan.prediction import PredictedMemory
from torchdeck.plan.preview.terms import by_family


@dataclass(frozen=True)
class Segment:
    """Part of a bar, from `left` (inclusive) to `right` (exclusive)."""

    name: str
    """Name from `torchdeck.plan.preview.terms.TERMS`."""
    size: int
    """Bytes."""
    left: int
    right: int


@dataclass(frozen=True)
class BarLayout:
    """Bar and its marks, in pixels from its left end; None if a mark is beyond the bar or unknown."""

    segments: tuple[Segment, ...]
    low: int
    """Lower bound; the peak is expected between this and the upper one."""
    high: int
    capacity: int | None
    free: int | None
    """End of the memory that is free now, if that is before the capacity."""

    def segment_at(self, x: float) -> int | None:
        """Return the index of the segment at `x`; for one too thin to be hit, its neighbour."""
        for index, segment in enumerate(self.segments):
            if segment.left <= x < segment.right:
                return index
        return None


def lay_out(memory: PredictedMemory, scale: float, width: int) -> BarLayout:
    """Return the bar of `memory` with `scale` bytes per `width` pixels; segments are adjacent without gaps.

    Raises:
        ValueError: the scale is not above 0.
    """
    if scale <= 0:
        raise ValueError(f"a scale of {scale} bytes has no length: it must be above 0")
    segments = _segments(by_family(memory.terms), scale, width)

    def place(size: int | None) -> int | None:
        return None if size is None or size > scale else round(size / scale * width)

    capacity, free = memory.capacity_bytes, memory.free_bytes
    taken = capacity is not None and free is not None and free < capacity
    return BarLayout(
        segments,
        low=min(width, round(memory.low_bytes / scale * width)),
        high=min(width, round(memory.high_bytes / scale * width)),
        capacity=place(capacity),
        free=place(free) if taken else None,
    )


def _segments(parts: Mapping[str, int], scale: float, width: int) -> tuple[Segment, ...]:
    made = []
    reached, left = 0, 0
    for name, size in parts.items():
        reached += size
        right = min(width, round(reached / scale * width))
        made.append(Segment(name, size, left, right))
        left = right
    return tuple(made)
