"""Nodes of the book against what distributed.nodes lists, by values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from torchdeck.nodes.inventory.schema import NodeEntry, NodeGroup, NodeInventory
from torchdeck_app.launch.preview.placement.run_nodes import added, inventory_items, nodes_of, without

NAMES = ("a", "b", "gpu0", "gpu1", "gpu2", "gpu3")
NODE_INVENTORY = NodeInventory(
    nodes={name: NodeEntry(address=f"{name}.lab", tags=["fast"] if name == "b" else []) for name in NAMES},
    groups={"lab": NodeGroup(nodes=["gpu[0-3]"]), "all": NodeGroup(nodes=["a", "lab"])},
)
TEXTS = st.lists(
    st.sampled_from([*NAMES, "lab", "tag:fast", "gpu[0-1]", "localhost", "n[00-03]"]), unique=True
)
"""What a run file may list: names, groups, tags, ranges, and machines that the book has not."""


def all_nodes(texts: list[str]) -> list[str]:
    return list(dict.fromkeys(node for text in texts for node in nodes_of(NODE_INVENTORY, text)))


def test_groups_come_first_and_say_how_much_of_them_is_used() -> None:
    found = {item.name: item for item in inventory_items(NODE_INVENTORY, ["gpu[0-1]", "a", "localhost"])}
    assert list(found) == ["lab", "all", *NAMES]
    assert (found["lab"].used, found["lab"].state) == (2, "2 of 4 in the run")
    assert (found["all"].used, len(found["all"].nodes)) == (3, 5)
    assert found["a"].is_used
    assert (found["b"].is_used, found["b"].state, found["b"].where) == (False, "not in the run", "b.lab")


def test_what_groups_and_ranges_name_is_known() -> None:
    assert nodes_of(NODE_INVENTORY, "all") == ("a", "gpu0", "gpu1", "gpu2", "gpu3")
    assert nodes_of(NODE_INVENTORY, "tag:fast") == ("b",)
    assert nodes_of(NODE_INVENTORY, "n[00-01]") == ("n00", "n01"), "machines that [cluster] describes"
    assert nodes_of(NODE_INVENTORY, "tag:none") == ("tag:none",)
    assert nodes_of(NODE_INVENTORY, "n[9-") == ("n[9-",), "half a range, being typed"


def test_a_node_comes_before_the_one_it_was_dropped_on() -> None:
    assert added(NODE_INVENTORY, ["a", "gpu[0-1]"], "b") == ["a", "gpu[0-1]", "b"]
    assert added(NODE_INVENTORY, ["a", "gpu[0-1]"], "b", before="a") == ["b", "a", "gpu[0-1]"]
    assert added(NODE_INVENTORY, ["a", "gpu[0-1]"], "b", before="gpu1") == ["a", "b", "gpu[0-1]"]
    assert added(NODE_INVENTORY, ["gpu1", "a"], "lab") == ["a", "lab"], (
        "what the group has too stands there once"
    )


def test_a_range_is_left_without_the_node_that_goes() -> None:
    assert without(NODE_INVENTORY, ["a", "gpu[0-3]", "b"], ["gpu0"]) == ["a", "gpu[1-3]", "b"]
    assert without(NODE_INVENTORY, ["lab"], ["gpu1"]) == ["gpu0", "gpu2", "gpu3"]
    assert without(NODE_INVENTORY, ["lab", "a"], nodes_of(NODE_INVENTORY, "lab")) == ["a"]


@given(TEXTS, st.sampled_from([*NAMES, "lab", "all"]), st.sampled_from(["", *NAMES]))
def test_what_is_added_is_there_and_nothing_else_goes(texts: list[str], name: str, before: str) -> None:
    now = all_nodes(added(NODE_INVENTORY, texts, name, before))
    assert set(now) == {*all_nodes(texts), *nodes_of(NODE_INVENTORY, name)}


@given(TEXTS, st.sampled_from([*NAMES, "lab", "all"]))
def test_what_is_taken_out_is_gone_and_the_order_of_others_stays(texts: list[str], name: str) -> None:
    gone = set(nodes_of(NODE_INVENTORY, name))
    assert all_nodes(without(NODE_INVENTORY, texts, gone)) == [
        node for node in all_nodes(texts) if node not in gone
    ]
