"""Learning-rate factors by value."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.distributed.optimizers import DECAYS, lr_factor


def factors(schedule: str, total: int = 10, warmup: int = 4, min_ratio: float = 0.1) -> list[float]:
    return [
        lr_factor(step, total=total, warmup=warmup, schedule=schedule, min_ratio=min_ratio)
        for step in range(total)
    ]


def test_warmup_then_linear() -> None:
    """Four steps up to the peak, then evenly down to the minimum in the last step."""
    assert factors("linear") == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 0.82, 0.64, 0.46, 0.28, 0.1])


def test_cosine_is_half_way_in_the_middle() -> None:
    """After the warm-up cosine starts at 1, has (1 + min) / 2 in the middle and ends at the minimum."""
    values = factors("cosine", total=9, warmup=0, min_ratio=0.2)
    assert (values[0], values[4], values[8]) == pytest.approx((1.0, 0.6, 0.2))


def test_constant_stays() -> None:
    """Constant has no end."""
    assert factors("constant", warmup=0) == [1.0] * 10


@settings(deadline=None)
@given(
    total=st.integers(1, 200),
    warmup=st.integers(0, 250),
    schedule=st.sampled_from(sorted(DECAYS)),
    min_ratio=st.floats(0, 1),
)
def test_rises_then_never_rises_again(total: int, warmup: int, schedule: str, min_ratio: float) -> None:
    """Up to the peak in the warm-up, never above 1, never below the minimum after it, never up again."""
    values = factors(schedule, total, warmup, min_ratio)
    up, down = values[:warmup], values[warmup:]
    assert up == sorted(up)
    assert all(0 < value <= 1 for value in up)
    assert all(min_ratio - 1e-9 <= value <= 1 + 1e-9 for value in down)
    assert all(later <= earlier + 1e-9 for earlier, later in itertools.pairwise(down))
