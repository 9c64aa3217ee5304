"""Verbs on the node inventory, which terminal and window share."""

from pathlib import Path

import pytest

from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.inventory.file import inventory_path
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.use_cases.nodes.chosen import NodesUsageError
from torchdeck.use_cases.nodes.import_hosts import find_hosts, import_hosts
from torchdeck.use_cases.nodes.inventory import (
    add_node,
    edit_nodes,
    group_nodes,
    list_nodes,
    remove_nodes,
    replace_node,
    restore_nodes,
)


def test_a_node_of_another_program_is_not_overwritten(tmp_path: Path) -> None:
    add_node(tmp_path, "a", {"address": "me@x:7"})
    with pytest.raises(NodesUsageError) as refused:
        add_node(tmp_path, "a", {"address": "y"})
    assert ("already exists" in refused.value.what, refused.value.is_usage) == (True, True)
    assert "torchdeck nodes edit a" in refused.value.fix
    assert list_nodes(tmp_path).nodes == {"a": NodeEntry(address="x", user="me", port=7)}


def test_an_edit_changes_all_nodes_or_none(tmp_path: Path) -> None:
    for name in ("n1", "n2"):
        add_node(tmp_path, name, {"address": name, "port": 9})
    edited = edit_nodes(tmp_path, "n[1-2]", {"user": "me"}, ["port"])
    assert {name: (each.before.port, each.after.port) for name, each in edited.items()} == {
        "n1": (9, None),
        "n2": (9, None),
    }
    before = inventory_path(tmp_path).read_bytes()
    for values, unset in (({"address": "z"}, []), ({}, ["address"]), ({}, ["nothing"]), ({}, [])):
        with pytest.raises(Refusal):
            edit_nodes(tmp_path, "n[1-2]", values, unset)
    assert inventory_path(tmp_path).read_bytes() == before


def test_a_removal_is_undone_next_to_later_changes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        add_node(tmp_path, name, {"address": name})
    assert group_nodes(tmp_path, "both", ["a", "b"]) == ["a", "b"]
    before = inventory_path(tmp_path).read_text()
    removed = remove_nodes(tmp_path, ["a"])
    assert list_nodes(tmp_path).groups == {"both": ["b"]}
    restore_nodes(tmp_path, removed)
    assert inventory_path(tmp_path).read_text() == before
    removed = remove_nodes(tmp_path, ["a"])
    replace_node(tmp_path, "b", NodeEntry(address="elsewhere"))
    restore_nodes(tmp_path, removed)
    assert {name: each.address for name, each in list_nodes(tmp_path).nodes.items()} == {
        "a": "a",
        "b": "elsewhere",
    }


def test_an_import_leaves_nodes_of_the_inventory_as_they_are(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host a\n  HostName 10.0.0.1\nHost b\n  HostName 10.0.0.2\nHost *\n  User me\n")
    add_node(tmp_path, "a", {"address": "mine"})
    assert import_hosts(find_hosts(config, tmp_path), tmp_path) == ["b"]
    assert {name: each.address for name, each in list_nodes(tmp_path).nodes.items()} == {
        "a": "mine",
        "b": "10.0.0.2",
    }
    with pytest.raises(NodesUsageError, match="there is no file"):
        find_hosts(tmp_path / "absent", tmp_path)
