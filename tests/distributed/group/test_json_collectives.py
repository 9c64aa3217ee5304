"""What ranks exchange is JSON within bounds, whoever sends it; real ranks over gloo."""

from typing import Any

import pytest

from support.ranks.measured_ranks import measure

pytestmark = pytest.mark.processes


def test_every_way_gives_every_rank_its_value() -> None:
    """Values of different lengths arrive whole, at those who get them, on three ranks and on one."""
    three, one = measure("support.ranks.json_ranks:exchange", [{"world_size": 3}, {"world_size": 1}])
    every = [[0, 0], [1, 1000], [2, 2000]]
    assert three == [
        [every, [0, 1, 2] if rank == 0 else [], f"for {rank}" * (rank + 1), 0] for rank in range(3)
    ]
    assert one == [[[[0, 0]], [0], "for 0", 0]]


def test_what_a_stranger_sends_is_refused() -> None:
    """No length that would take the memory, no depth, no pickle; the rank is named."""
    told: list[dict[str, Any]] = [
        {"length": 1 << 50, "content": ""},
        {"length": -1, "content": ""},
        {"length": 0, "content": "[" * 100_000},
        {"length": 0, "content": "\x80\x04cposix\nsystem\n"},
        {"length": 0, "content": "NaN"},
    ]
    jobs = [{"world_size": 2, **message} for message in told]
    heard = [first for first, _ in measure("support.ranks.json_ranks:hear_a_stranger", jobs)]
    assert heard[0] == "rank 1 sends 1 PiB; expected 1 B to 32 MiB"
    assert heard[1].startswith("rank 1 sends -1 ")
    assert all(text.startswith("what rank 1 sent is refused: it ") for text in heard[2:4]), heard
    assert heard[4] == "what rank 1 sent is refused: NaN is not a number in JSON"
