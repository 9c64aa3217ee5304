"""The field of a run's nodes offers what the node inventory has."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot
from shiboken6 import delete

from support.gui.form_user import User
from support.values.run_files import MINIMAL
from torchdeck.nodes.inventory.schema import NodeEntry, NodeGroup, NodeInventory
from torchdeck_app.launch.form.control_factory import NodesControl
from torchdeck_app.launch.node_names import names_in
from torchdeck_app.theme.theme import Theme

NAMES = ["all", "a", "b", "tag:fast"]


@pytest.fixture
def user(qtbot: QtBot, theme: Theme, tmp_path: Path) -> Iterator[User]:
    made = User(qtbot, theme, tmp_path, NAMES)
    made.open(MINIMAL)
    yield made
    made.document.close(10.0)
    delete(made.form)


def test_the_book_names_groups_nodes_and_tags() -> None:
    node_inventory = NodeInventory(
        nodes={"a": NodeEntry(address="x", tags=["fast"]), "b": NodeEntry(address="y", tags=["fast"])},
        groups={"all": NodeGroup(nodes=["a", "b"])},
    )
    assert list(names_in(node_inventory)) == NAMES
    assert names_in(NodeInventory()) == ()


def test_names_are_chosen_and_taken_back(user: User) -> None:
    def nodes() -> object:
        return tomllib.loads(user.document.text).get("distributed", {}).get("nodes")

    def choose(name: str) -> None:
        control.fill_menu()
        control.menu.actions()[NAMES.index(name)].trigger()
        user.settle()

    control = user.within("distributed.nodes", NodesControl)
    assert nodes() is None
    choose("a")
    choose("b")
    assert nodes() == ["a", "b"]
    assert control.line.text() == "a, b"
    choose("a")
    assert nodes() == ["b"]
    choose("b")
    assert nodes() is None


def test_what_is_typed_stays_possible(user: User) -> None:
    line = user.within("distributed.nodes", NodesControl).line
    user.type(line, "a, tag:fast")
    assert tomllib.loads(user.document.text)["distributed"]["nodes"] == ["a", "tag:fast"]
