"""Which groups of ranks have a bar, on what scale."""

import pytest

from support.values.previews import GIB, memory
from torchdeck.plan.memory.fullness import MemoryPreview
from torchdeck.plan.preview.memory_bars import capacity_in_sight, magnified, most_needed, scale_of


def test_the_decisive_group_always_has_a_bar() -> None:
    """A small device that is nearly full matters more than a large one with more in it."""
    tight = memory(90, 99, peak=20, capacity=21, verdict="tight")
    groups = (*(memory(10 * i, 10 * i + 9, peak=40 + i) for i in range(9)), tight)
    preview = MemoryPreview("traced", groups)
    shown = most_needed(preview, 3)
    assert shown[0] == preview.decisive == tight
    assert [group.peak_bytes // GIB for group in shown[1:]] == [48, 47]


@pytest.mark.parametrize(("peak", "sees"), [(40, True), (100, True), (1, False)])
def test_bars_that_are_nearly_empty_are_magnified(peak: float, sees: bool) -> None:
    group = memory(peak=peak, capacity=80)
    scale = scale_of([group])
    assert scale >= group.high_bytes
    assert capacity_in_sight(group, scale) is sees
    assert bool(magnified([group], scale)) is not sees
