"""Whether it fits."""

import pytest

from torchdeck.plan.memory.predict import verdict


@pytest.mark.parametrize(
    ("peak", "high", "capacity", "free", "said"),
    [
        (90, 90, 100, None, "fits"),
        (91, 91, 100, None, "tight"),
        (100, 100, 100, None, "tight"),
        (101, 101, 100, None, "does not fit"),
        (50, 101, 100, None, "tight"),
        (50, 50, 100, 55, "tight"),
        (50, 50, 100, 49, "does not fit"),
        (50, 50, None, 100, "fits"),
        (50, 50, None, None, "unknown"),
    ],
)
def test_verdicts(peak: int, high: int, capacity: int | None, free: int | None, said: str) -> None:
    """Over 90 % of what is there and free is tight; so is a range that ends above it."""
    assert verdict(peak, high, capacity, free) == said
