"""The node inventory: what it says, what is wrong with it and where, and changes that leave the rest
alone.
"""

from __future__ import annotations

import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.config.problems import ConfigError
from torchdeck.nodes.inventory.file import change_inventory, inventory_path, parse_inventory, read_inventory
from torchdeck.nodes.inventory.file_edits import with_group, with_node, without_group, without_node
from torchdeck.nodes.inventory.schema import NodeEntry, NodeGroup, NodeInventory

TEXT = """\
# my machines
version = 1

# the fast one
[nodes.a]
address = "10.0.0.1"  # wired
devices = [0, 1]

[nodes.b]
address = "b.lab"
user = "me"
tags = ["slow"]

[groups.lab]
nodes = ["a", "b"]
"""


def test_a_book_says_its_nodes_and_groups() -> None:
    node_inventory = parse_inventory(TEXT, "nodes.toml")
    assert node_inventory.nodes["a"] == NodeEntry(address="10.0.0.1", devices=[0, 1])
    assert node_inventory.nodes["b"] == NodeEntry(address="b.lab", user="me", tags=["slow"])
    assert node_inventory.groups == {"lab": NodeGroup(nodes=["a", "b"])}


def test_where_there_is_no_file_there_are_no_nodes(tmp_path: Path) -> None:
    assert read_inventory(inventory_path(tmp_path)) == NodeInventory()


@pytest.mark.parametrize(
    ("text", "line", "path", "wrong", "right"),
    [
        ("version = 2", 1, "version", "this file has version 2", "a newer Torchdeck"),
        ("[nodes.a]\nuser = 'x'", 1, "nodes.a", "there is no address in it", "host name or address"),
        ("[nodes.a]\naddress = 'x'\nprot = 1", 3, "nodes.a.prot", "unknown key", "port"),
        (
            "[nodes.a]\naddress = 'x'\nport = 70000",
            3,
            "nodes.a.port",
            "70000 is not valid",
            "from 1 to 65535",
        ),
        ("[nodes.a]\naddress = 'x'\nport = '22'", 3, "nodes.a.port", '"22" is text', "from 1 to 65535"),
        ("[nodes.a]\naddress = 'me@x'", 2, "nodes.a.address", '"me@x" is not valid', "keys of their own"),
        ("[nodes.a]\naddress = '-oProxyCommand=x'", 2, "nodes.a.address", "is not valid", "host name"),
        ("[nodes.a]\naddress = 'x'\nkey = 'id'", 3, "nodes.a.key", '"id" is not valid', "absolute path"),
        (
            "[nodes.a]\naddress = 'x'\nvenv = 'v'",
            3,
            "nodes.a.venv",
            '"v" is not valid',
            "absolute path on the node",
        ),
        (
            "[nodes.a]\naddress = 'x'\ndevices = [0, 0]",
            3,
            "nodes.a.devices",
            "listed twice",
            "each index once",
        ),
        (
            "[nodes.a]\naddress = 'x'\npython = 'p'\nvenv = '/v'",
            4,
            "nodes.a.venv",
            "each select a Python",
            "one of",
        ),
        (
            "[nodes.a]\naddress = 'x'\nvenv = '/v'\nactivate = '/s'",
            4,
            "nodes.a.activate",
            "venv activates",
            "one of",
        ),
        ("[nodes.'a b']\naddress = 'x'", 1, 'nodes."a b"', "not a valid name", "letters, digits"),
        (
            "[nodes.localhost]\naddress = 'x'",
            1,
            "nodes.localhost",
            "this name is reserved for this machine",
            "letters",
        ),
        ("[groups.g]\nnodes = ['nobody']", 2, "groups.g.nodes", "no node or group nobody", "in this file"),
        ("[groups.g]\nnodes = []", 2, "groups.g.nodes", "is not valid", "list of names"),
        (
            "[groups.g]\nnodes=['h']\n[groups.h]\nnodes=['g']",
            2,
            "groups.g.nodes",
            "contain each other",
            "names",
        ),
        (
            "[nodes.a]\naddress = 'x'\n[groups.a]\nnodes = ['a']",
            3,
            "groups.a",
            "a node already has this name",
            "different",
        ),
        ("[[nodes]]\naddress = 'x'", 1, "nodes", "is a list", "tables [nodes.NAME]"),
        ("nodes = 3", 1, "nodes", "3 is a whole number", "tables [nodes.NAME]"),
        ("[nodes]\na = 3", 2, "nodes.a", "3 is a whole number", "tables [nodes.NAME]"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, line: int, path: str, wrong: str, right: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_inventory(text, "nodes.toml")
    found = caught.value.problems[0]
    assert (found.file, found.line, found.path) == ("nodes.toml", line, path)
    assert wrong in found.wrong
    assert right in found.right


def test_all_problems_are_said_at_once_in_the_order_of_lines() -> None:
    text = "[nodes.a]\naddress = 7\n[nodes.b]\naddress = 'x'\nport = 0\nx = 1\n"
    with pytest.raises(ConfigError) as caught:
        parse_inventory(text, "nodes.toml")
    assert [problem.line for problem in caught.value.problems] == [2, 5, 6]


@pytest.mark.parametrize("text", ["= 1", "a" * 70 + ".b" * 70 + " = 1", "[nodes.a"])
def test_what_is_not_toml_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ConfigError, match="this is not TOML"):
        parse_inventory(text, "nodes.toml")


def test_a_change_leaves_every_other_byte(tmp_path: Path) -> None:
    entry = NodeEntry(address="10.0.0.1", devices=[0, 1, 2], port=2222)
    changed = with_node(TEXT, "a", entry)
    assert changed == TEXT.replace("[0, 1]\n", "[0, 1, 2]\nport = 2222\n")
    assert with_node(changed, "a", NodeEntry(address="10.0.0.1", devices=[0, 1])) == TEXT
    assert without_node(TEXT, "a") == TEXT.replace(TEXT[TEXT.index("# the") : TEXT.index("[nodes.b]")], "")


@pytest.mark.parametrize(
    "text",
    [
        'nodes.a.address = "x"\nnodes.a.port = 3\nnodes.b.address = "y"\n',
        '[nodes]\na = {address = "x", port = 3}\nb = {address = "y"}\n',
        '[nodes]\na.address = "x"\na.port = 3\nb.address = "y"\n',
        '[nodes.a]\naddress = "x"\nport = 3\n[nodes.b]\naddress = "y"\n',
    ],
)
def test_however_a_node_is_written_it_is_changed_and_removed(text: str) -> None:
    changed = parse_inventory(with_node(text, "a", NodeEntry(address="z", user="u")), "t")
    assert changed.nodes == {"a": NodeEntry(address="z", user="u"), "b": NodeEntry(address="y")}
    assert parse_inventory(without_node(text, "a"), "t").nodes == {"b": NodeEntry(address="y")}


words = st.text(
    st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=8
)
entries = st.builds(
    NodeEntry,
    address=st.sampled_from(["10.0.0.1", "host", "fe80::1"]),
    port=st.none() | st.integers(1, 65535),
    jump=st.lists(words, max_size=2),
    working_dir=st.none() | words.map(lambda word: f"/{word}"),
    devices=st.none() | st.lists(st.integers(0, 7), unique=True, max_size=3),
    max_ranks=st.none() | st.integers(1, 8),
)
names = st.sampled_from(["a", "b", "c-1", "1.2"])


@settings(deadline=None)
@given(st.lists(st.tuples(names, st.none() | entries), max_size=8))
def test_any_changes_one_after_the_other_give_the_book_they_say(
    changes: list[tuple[str, NodeEntry | None]],
) -> None:
    text, wanted = TEXT, dict(parse_inventory(TEXT, "t").nodes)
    for name, entry in changes:
        if entry is None:
            text = without_node(text, name)
            wanted.pop(name, None)
        else:
            text = with_node(text, name, entry)
            wanted[name] = entry
    table = tomllib.loads(text)
    assert {name: NodeEntry.model_validate(node) for name, node in table.get("nodes", {}).items()} == wanted
    assert table["groups"] == {"lab": {"nodes": ["a", "b"]}}


def test_a_change_is_written_for_its_owner_alone_and_a_wrong_one_not_at_all(tmp_path: Path) -> None:
    path = inventory_path(tmp_path)
    node_inventory = change_inventory(path, lambda text: with_node(text, "a", NodeEntry(address="x")))
    assert node_inventory.nodes == {"a": NodeEntry(address="x")}
    assert path.read_text() == 'version = 1\n\n[nodes.a]\naddress = "x"\n'
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(ConfigError, match="there is no node or group nobody"):
        change_inventory(path, lambda text: with_group(text, "g", NodeGroup(nodes=["nobody"])))
    assert read_inventory(path) == node_inventory
    change_inventory(path, lambda text: with_group(text, "g", NodeGroup(nodes=["a"])))
    assert change_inventory(path, lambda text: without_group(text, "g")) == node_inventory


def test_a_book_that_others_can_write_does_not_count(tmp_path: Path) -> None:
    """It names scripts that are sourced on the nodes, and their Pythons."""
    path = tmp_path / "nodes.toml"
    path.write_text('[nodes.a]\naddress = "h"\n')
    path.chmod(0o666)
    with pytest.raises(ConfigError, match="everyone can write"):
        read_inventory(path)
    with pytest.raises(ConfigError, match="everyone can write"):
        change_inventory(path, lambda text: text)
    path.chmod(0o644)
    assert list(read_inventory(path).nodes) == ["a"]


@pytest.mark.processes
def test_processes_that_change_the_book_at_once_lose_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from torchdeck.nodes.inventory.file import change_inventory\n"
        "from torchdeck.nodes.inventory.schema import NodeEntry\n"
        "from torchdeck.nodes.inventory.file_edits import with_node\n"
        "for i in range(5):\n"
        "    name = f'{sys.argv[2]}{i}'\n"
        "    change_inventory(Path(sys.argv[1]), lambda t: with_node(t, name, NodeEntry(address='x')))\n"
    )
    path = inventory_path(tmp_path)
    children = [subprocess.Popen([sys.executable, "-c", code, str(path), word]) for word in "abc"]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    assert sorted(read_inventory(path).nodes) == sorted(f"{word}{i}" for word in "abc" for i in range(5))
