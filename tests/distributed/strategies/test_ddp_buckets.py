"""The layout of DDP's buckets, settled before the first backward."""

import pytest

from support.ranks.measured_ranks import measure

pytestmark = pytest.mark.processes


def test_buckets_are_those_that_torch_comes_to() -> None:
    """By its first backward; here although the embedding, whose gradient is last, is declared last."""
    ((found, _),) = measure("support.ranks.wrapped_ranks:buckets", [{"world_size": 2}])
    assert found["settled"] == found["rebuilt"]
    assert [name for bucket in found["settled"] for name in bucket] == [
        "layers.2.bias",
        "layers.2.weight",
        "layers.0.bias",
        "layers.0.weight",
        "table.weight",
    ]
    assert len(found["settled"]) > 2
    assert found["first"] == found["settled"], "the layout was another one in the first step"
