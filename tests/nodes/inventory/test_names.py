"""Names, ranges, groups and tags lead to nodes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.nodes.inventory.names import NodeNamesError, named_nodes
from torchdeck.nodes.inventory.schema import NodeEntry, NodeGroup, NodeInventory


def entry(*tags: str) -> NodeEntry:
    return NodeEntry(address="x", tags=list(tags))


NODE_INVENTORY = NodeInventory(
    nodes={"gpu0": entry("fast"), "gpu1": entry("fast", "lab"), "gpu2": entry(), "box": entry("lab")},
    groups={
        "pair": NodeGroup(nodes=["gpu[0-1]"]),
        "all": NodeGroup(nodes=["box", "pair", "gpu2"]),
        "lab": NodeGroup(nodes=["tag:lab"]),
    },
)


@pytest.mark.parametrize(
    ("texts", "nodes"),
    [
        (["box"], ["box"]),
        (["gpu[0-2]"], ["gpu0", "gpu1", "gpu2"]),
        (["pair"], ["gpu0", "gpu1"]),
        (["all"], ["box", "gpu0", "gpu1", "gpu2"]),
        (["gpu1", "all"], ["gpu1", "box", "gpu0", "gpu2"]),
        (["tag:lab"], ["gpu1", "box"]),
        (["lab", "tag:fast"], ["gpu1", "box", "gpu0"]),
        ([], []),
    ],
)
def test_names_lead_to_nodes_in_their_order_each_once(texts: list[str], nodes: list[str]) -> None:
    assert named_nodes(NODE_INVENTORY, texts) == nodes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpu3", "there is no node or group gpu3; did you mean gpu0"),
        ("elsewhere", "there is no node or group elsewhere"),
        ("tag:none", "no node has the tag none"),
        ("gpu[2-1]", r"gpu\[2-1\] is not a node name: \[2-1\] is a descending"),
    ],
)
def test_a_name_of_nothing_is_said_to_be_one(text: str, said: str) -> None:
    with pytest.raises(NodeNamesError, match=said):
        named_nodes(NODE_INVENTORY, [text])


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from("abcd"), st.lists(st.sampled_from("abcdn"), min_size=1, max_size=3)))
def test_groups_of_groups_end_in_nodes_or_in_a_sentence(groups: dict[str, list[str]]) -> None:
    node_inventory = NodeInventory(
        nodes={"n": entry()}, groups={name: NodeGroup(nodes=of) for name, of in groups.items()}
    )
    for name in groups:
        ends = _ends(groups, name, ())
        if ends:
            assert named_nodes(node_inventory, [name]) == ["n"]
        else:
            with pytest.raises(NodeNamesError, match=r"contain each other|no node or group"):
                named_nodes(node_inventory, [name])


def _ends(groups: dict[str, list[str]], name: str, around: tuple[str, ...]) -> bool:
    """Whether a name leads to nothing but the node `n`."""
    if name == "n":
        return True
    inside = (*around, name)
    return name not in around and name in groups and all(_ends(groups, of, inside) for of in groups[name])
