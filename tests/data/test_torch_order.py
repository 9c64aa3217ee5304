"""torch's permutation without torch, compared with torch's."""

import hashlib

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from torchdeck.data.order import Ids
from torchdeck.data.sampler import (
    SWITCH,
    _inside_out_partners,
    _seeded,
    _swap_in_order,
    torch_permutation,
)


def torchs_own(size: int, seed: int) -> Ids:
    generator = torch.Generator().manual_seed(seed)
    found: Ids = torch.randperm(size, generator=generator).numpy()
    return found


@settings(deadline=None)
@given(st.integers(0, 5000), st.integers(-(2**63), 2**64 - 1))
@example(0, 0)
@example(1, 0)
@example(100, 2**32)
@example(100, -1)
@example(100, 2**64 - 1)
def test_it_is_torchs_permutation(size: int, seed: int) -> None:
    """Same size, same seed, whatever seed torch takes: the same permutation."""
    assert (torch_permutation(size, seed) == torchs_own(size, seed)).all()


@pytest.mark.parametrize("size", [10_000, 65_537, 1_048_575, 1_048_577, 1_048_578, 3_000_001])
def test_large_ones_are_too(size: int) -> None:
    """Sizes around and over the pieces that the work is done in."""
    assert (torch_permutation(size, size) == torchs_own(size, size)).all()


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("size", [SWITCH - 1, SWITCH, SWITCH + 1])
def test_where_torch_changes_its_algorithm(size: int) -> None:
    """Just below 2³²/20 elements and from there on; takes 4 GB and half a minute each."""
    assert (torch_permutation(size, 7) == torchs_own(size, 7)).all()


def test_the_other_algorithm_on_small_sizes() -> None:
    """Inside-out shuffling, written down plainly with torch's own bits, gives what the blocks give."""
    size, seed = 4000, 3
    plain: list[int] = []
    for index, draw in enumerate(torch_draws(size, seed)):
        partner = draw % (index + 1)
        plain.append(index)
        plain[index], plain[partner] = plain[partner], index
    values = np.arange(size)
    for partners in _inside_out_partners(_seeded(seed), size):
        _swap_in_order(values, 0, partners)
    assert values.tolist() == plain


def torch_draws(count: int, seed: int) -> list[int]:
    """What torch's CPU generator gives, 64 bits each."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.empty(count, dtype=torch.int64).random_(-(2**63), None, generator=generator)
    return [draw % 2**64 for draw in drawn.tolist()]


def test_it_never_changes_between_versions() -> None:
    """Literal values: no version of numpy or torch moves them."""
    assert torch_permutation(10, 0).tolist() == [4, 1, 7, 5, 3, 9, 0, 8, 6, 2]
    digest = hashlib.sha256(torch_permutation(100_000, 7).astype("<i8").tobytes()).hexdigest()
    assert digest == "509a82d0671c919bc50ec4f402de57a73593dbbea621088eab923985da9f14a9"


def test_what_torch_refuses_is_refused() -> None:
    """A negative size, and seeds that torch does not take."""
    with pytest.raises(ValueError, match="expected a size from 0"):
        torch_permutation(-1, 0)
    for seed in (2**64, -(2**63) - 1):
        with pytest.raises(ValueError, match="it must be from"):
            torch_permutation(3, seed)
