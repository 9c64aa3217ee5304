"""Checksums over the bits of tensors."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.distributed.local_tensors import checksum

SIZES = (1, 1023, 1025, 3 * 1024 + 7, (1 << 20) + 5)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int8", "bool", "complex64"])
def test_equal_bits_have_equal_sums(size: int, dtype: str) -> None:
    """However a tensor lies in memory; one element that differs in its last bit gives another sum."""
    values = (torch.arange(size) % 2).to(getattr(torch, dtype))
    spread = torch.stack([values, values], 1)[:, 0]
    assert checksum(spread) == checksum(values)
    for place in (0, size // 2, size - 1):
        changed = values.clone()
        changed[place] = changed[place] == 0
        assert checksum(changed) != checksum(values)


@given(st.integers(0, 4999), st.integers(0, 4999))
def test_elements_that_change_places_are_seen(one: int, other: int) -> None:
    """Inside a row, inside a column and across."""
    values = torch.arange(5000, dtype=torch.float32)
    changed = values.clone()
    changed[one], changed[other] = values[other], values[one]
    assert (checksum(changed) == checksum(values)) == (one == other)


def test_zero_and_minus_zero_differ() -> None:
    """It is bits that are compared, so NaN is equal to itself too."""
    assert checksum(torch.tensor([0.0])) != checksum(torch.tensor([-0.0]))
    assert checksum(torch.tensor([float("nan")])) == checksum(torch.tensor([float("nan")]))
    assert checksum(torch.empty(0)) == 0
