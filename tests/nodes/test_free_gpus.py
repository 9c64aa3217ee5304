"""Which free GPUs a run takes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from torchdeck.nodes.free_gpus import FreeGpu, FreeNode, changes, is_unused, offers, take


def node(name: str, *indices: int, model: str = "H100") -> FreeNode:
    return FreeNode(name, tuple(FreeGpu(index, model) for index in indices))


def test_one_node_is_enough_and_the_fullest_is_taken() -> None:
    """A node with just as many free ones leaves larger gaps to others."""
    found = take([node("a", 0, 1, 2, 3, 4, 5, 6, 7), node("b", 2, 3, 5, 6)], 4, "H100")
    assert found is not None
    assert (found.nodes, found.devices, found.count) == (("b",), (2, 3, 5, 6), 4)


def test_several_nodes_give_the_same_indices() -> None:
    """As the run file has one list of devices for all nodes."""
    nodes = [node("a", 0, 1, 2), node("b", 4, 5, 6), node("c", 1, 2, 3)]
    found = take(nodes, 4, "H100")
    assert found is not None
    assert (found.nodes, found.devices) == (("a", "c"), (1, 2))
    assert take(nodes, 6, "H100") is None
    assert take(nodes, 5, "H100") is None
    assert take(nodes, 1, "A100") is None


def test_models_are_not_mixed() -> None:
    assert take([node("a", 0, 1), node("b", 0, 1, model="A100")], 4, "H100") is None
    found = offers([node("b", 0, model="T4"), node("a", 0, 1, 2)])
    assert [(offer.model, offer.count) for offer in found] == [
        ("H100", 1),
        ("H100", 2),
        ("H100", 3),
        ("T4", 1),
    ]


def test_what_a_run_file_gets() -> None:
    found = take([node("a", 1, 3)], 2, "H100")
    assert found is not None
    assert dict(changes(found)) == {
        "distributed.nodes": ["a"],
        "distributed.devices": [1, 3],
        "distributed.nproc": None,
    }


def test_a_gpu_in_use_is_not_free() -> None:
    """By a process, by a run that has leased it, or by memory that someone holds."""
    assert is_unused(80, 79, has_users=False, is_leased=False)
    assert not is_unused(80, None, has_users=False, is_leased=False)
    assert not is_unused(80, 79, has_users=True, is_leased=False)
    assert not is_unused(80, 79, has_users=False, is_leased=True)
    assert not is_unused(80, 75, has_users=False, is_leased=False)


_FREE = st.lists(st.frozensets(st.integers(0, 7)), min_size=1, max_size=6)


@given(_FREE, st.integers(1, 24))
def test_what_is_taken_is_free(free: list[frozenset[int]], count: int) -> None:
    nodes = [node(f"n{index}", *sorted(indices)) for index, indices in enumerate(free)]
    found = take(nodes, count, "H100")
    if found is not None:
        assert found.count == count
        by_name = {each.name: each.indices("H100") for each in nodes}
        assert all(set(found.devices) <= by_name[name] for name in found.nodes)
    if any(len(indices) >= count for indices in free):
        assert found is not None
        assert len(found.nodes) == 1
