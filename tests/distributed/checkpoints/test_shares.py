"""Which rank writes what of what several hold."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.distributed.checkpoints.shares import deal
from torchdeck.distributed.checkpoints.snapshot import own_share

SIZES = st.dictionaries(st.text(max_size=3), st.integers(0, 1000), max_size=30)


@given(SIZES, st.integers(1, 6))
def test_everybody_gets_about_as_much(sizes: dict[str, int], hands: int) -> None:
    """Each name once; no one has more than the one with least by above the largest; order does not matter."""
    dealt = deal(sizes, hands)
    assert dealt.keys() == sizes.keys()
    loads = [0] * hands
    for name, hand in dealt.items():
        loads[hand] += max(1, sizes[name])
    assert max(loads) - min(loads) <= max([1, *sizes.values()])
    assert deal(dict(reversed(sizes.items())), hands) == dealt


def test_what_is_alike_is_written_once_and_the_rest_by_all() -> None:
    """Three ranks with the same weights, each with its own statistics."""
    tensors = {name: torch.zeros(size) for name, size in {"a": 9, "b": 5, "c": 4, "mean": 2}.items()}
    shares = [own_share(tensors, {"a", "b", "c"}, rank, 3) for rank in range(3)]
    assert [list(share) for share in shares] == [["a", "mean"], ["b", "mean"], ["c", "mean"]]
    assert all(share["mean"] is tensors["mean"] for share in shares), "nothing is copied"
    assert own_share(tensors, tensors.keys(), 0, 1) == tensors
