"""Sizes in messages of nodes."""

import pytest

from torchdeck.contract.byte_size import size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (8 << 20, "8 MiB"),
        (1_344_000_000, "1.252 GiB"),
        (1 << 63, "8192 PiB"),
    ],
)
def test_a_size_is_in_the_largest_unit_that_fits(count: int, text: str) -> None:
    assert size(count) == text
