"""Random state of a rank."""

import io
import random
from typing import Any

import numpy as np
import pytest
import torch

from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.files.rank_file import derive_rng, restore_rng, rng_state


def _draw() -> list[float]:
    return [
        random.random(),  # noqa: S311 - the generator is what is tested
        random.gauss(0, 1),
        float(np.random.normal()),
        float(torch.rand(1)),
        float(torch.nn.functional.dropout(torch.ones(50)).sum()),
    ]


def _through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded: dict[str, Any] = torch.load(file, weights_only=True)
    return loaded


def test_generators_go_on_exactly() -> None:
    """Python's, numpy's and torch's generators give the same numbers again, in mid-pair of gauss too."""
    random.gauss(0, 1)
    state = _through_a_file(rng_state())
    drawn = [_draw() for _ in range(3)]
    _draw()
    restore_rng(state)
    assert [_draw() for _ in range(3)] == drawn


def test_derived_state_is_by_rule() -> None:
    """The same for the same rank and world size, different for another of either."""
    state = rng_state()
    drawn: dict[tuple[int, int], tuple[float, ...]] = {}
    for rank, world_size in [(0, 2), (1, 2), (0, 3), (0, 2)]:
        derive_rng(state, rank, world_size)
        numbers = tuple(_draw())
        assert drawn.setdefault((rank, world_size), numbers) == numbers
    assert len(set(drawn.values())) == 3


@pytest.mark.parametrize(
    "change", [{"python": None}, {"torch": torch.zeros(3, dtype=torch.uint8)}, {"numpy": [1]}]
)
def test_state_that_is_none_is_refused(change: dict[str, object]) -> None:
    """What is not a generator's state is said to be none."""
    with pytest.raises(CheckpointError, match="random state cannot be used"):
        restore_rng({**rng_state(), **change})
