"""Which rank sits where, laid out."""

from hypothesis import given, settings
from hypothesis import strategies as st

from support.values.previews import preview


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 5), st.integers(1, 4))
def test_the_board_has_every_rank_once(nodes: int, gpus: int) -> None:
    """Nodes in order, their ranks one behind the other, as in the plan."""
    made = preview(nodes, gpus)
    ranks = [rank for node in made.board.nodes for rank in range(node.first_rank, node.last_rank + 1)]
    assert ranks == [rank.rank for rank in made.plan.ranks]
    assert [device for node in made.board.nodes for device in node.devices] == [
        rank.device for rank in made.plan.ranks
    ]


def test_groups_of_hybrid_sharding() -> None:
    """Ranks that shard one model stand together; the size is that of a node where nothing is said."""
    board = preview(2, 4, distributed={"strategy": "hsdp"}).board
    assert (board.shard, board.replicas) == (4, 2)
    assert [board.shard_group(rank) for rank in range(8)] == [0] * 4 + [1] * 4
    assert preview(2, 4, distributed={"strategy": "fsdp"}).board.shard == 8
    assert preview(2, 4).board.shard == 1


def test_nodes_that_are_alike_are_one_stretch() -> None:
    """A thousand equal nodes are one thing to see."""
    board = preview(6, 2).board
    assert [(first.name, last.name) for first, last in board.alike()] == [("n0000", "n0005")]


def test_what_the_devices_are() -> None:
    """As the driver names them."""
    assert preview(1, 2).board.nodes[0].kind == "Tester 80GB"
    assert preview(1, 2, distributed={"devices": "cpu"}).board.nodes[0].kind == "CPU"
