"""The tree of parameters: sums of modules are those of their tensors, whatever the names."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.contract.plan.model_profile import TensorInfo
from torchdeck.plan.memory.spec import StrategySpec
from torchdeck_app.launch.preview.parameter_tree import (
    ROOT,
    ParameterTree,
    as_text,
    number_text,
    parameter_tree,
    rows_text,
    shape_text,
    type_text,
)

NAMES = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(".".join)
TENSORS = st.lists(st.tuples(NAMES, st.lists(st.integers(0, 5), max_size=2)), max_size=25)


def tensor(name: str, *shape: int, trainable: bool = True) -> TensorInfo:
    return TensorInfo(name, shape, "float32", trainable=trainable, unit=0)


def whole_name(tree: ParameterTree, node: int) -> str:
    parts: list[str] = []
    while node != ROOT:
        parts.insert(0, tree.names[node])
        node = tree.parents[node]
    return ".".join(parts)


@given(TENSORS)
def test_every_tensor_is_one_leaf_with_its_name(given_tensors: list[tuple[str, list[int]]]) -> None:
    """Even where a tensor is named like a module beside it, or a name is there twice."""
    tensors = [tensor(name, *shape) for name, shape in given_tensors]
    tree = parameter_tree(tensors)
    leaves = [node for node in range(len(tree)) if tree.tensor(node) is not None]
    assert sorted(str(tree.tensor(node)) for node in leaves) == sorted(map(str, tensors))
    for node in leaves:
        info = tree.tensor(node)
        assert info is not None
        assert whole_name(tree, node) == info.name


@given(TENSORS)
def test_modules_sum_up_what_is_in_them(given_tensors: list[tuple[str, list[int]]]) -> None:
    tree = parameter_tree([tensor(name, *shape) for name, shape in given_tensors])
    sums = tree.sums(tree.table.sizes)
    assert sums[ROOT] == sum(info.size for info in tree.table.tensors)
    for node in range(len(tree)):
        info = tree.tensor(node)
        if info is not None:
            assert sums[node] == info.size
        else:
            assert sums[node] == sum(sums[child] for child in tree.children(node))
        for row, child in enumerate(tree.children(node)):
            assert (tree.parents[child], tree.rows[child]) == (node, row)


def test_modules_stand_in_the_order_of_the_model() -> None:
    tree = parameter_tree([tensor("b.0.w", 2), tensor("a.w", 2), tensor("b.1.w", 2)])
    assert [tree.names[node] for node in tree.children(ROOT)] == ["b", "a.w"]
    assert [info.name for info in tree.table.tensors] == ["b.0.w", "b.1.w", "a.w"]


def test_a_search_finds_names_with_all_words_and_their_modules() -> None:
    tree = parameter_tree([tensor("layers.0.Attention.weight", 2), tensor("layers.1.mlp.weight", 2)])
    hits = tree.hits("attention WEIGHT")
    assert hits.tolist() == [1, 0]
    seen = tree.sums(hits) > 0
    names = {whole_name(tree, int(node)) for node in np.flatnonzero(seen)}
    assert names == {"", "layers", "layers.0.Attention.weight"}
    assert tree.hits("attention mlp").sum() == 0


@pytest.mark.parametrize(
    ("part", "text"),
    [((0, 8, 8), "all 8"), ((0, 4, 8), "0–3 of 8"), ((7, 1, 8), "7 of 8"), ((3, 0, 3), "none of 3")],
)
def test_rows_in_words(part: tuple[int, int, int], text: str) -> None:
    assert rows_text(*part) == text


def test_shapes_and_types_in_words() -> None:
    assert (shape_text(tensor("w", 4096, 8)), shape_text(tensor("w"))) == ("4,096 × 8", "scalar")
    assert type_text(tensor("w", 1, trainable=False)) == "float32, frozen"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1016, "1,016"),
        (873_216, "873.2k"),
        (7_000_000, "7.0M"),
        (6_476_000_000, "6.48B"),
        (10**12, "1,000.00B"),
    ],
)
def test_numbers_of_parameters(number: int, text: str) -> None:
    assert number_text(number) == text


def test_a_copy_has_each_tensor_once() -> None:
    tree = parameter_tree([tensor("a.w", 4, 2), tensor("a.b", 4)])
    held = tree.table.held(StrategySpec("fsdp", world_size=2, shard=2), 1)
    lines = as_text(tree, held, [ROOT, *tree.children(ROOT)]).splitlines()
    assert lines[1:] == ["a.w\t4×2\tfloat32\t32\t2\t2\t16", "a.b\t4\tfloat32\t16\t2\t2\t8"]
    assert as_text(tree, None, []).count("\n") == 1
