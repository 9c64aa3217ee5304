"""Adding, changing, importing and removing nodes, as a person does."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QPushButton
from pytestqt.qtbot import QtBot

from gui.nodes.conftest import SLOW
from support.hosts.hosts import TestHosts
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.use_cases.nodes.node_trial import ANSWERS, HOME, KEY, LOGIN, PYTHON, TORCH
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.nodes.entry_form import fields_by_heading
from torchdeck_app.nodes.import_dialog import ImportDialog
from torchdeck_app.nodes.node_dialog import NodeDialog
from torchdeck_app.nodes.nodes_page import NodesPage
from torchdeck_app.nodes.window_asker import FingerprintDialog, WindowAsker
from torchdeck_app.theme.theme import Theme

Board = Callable[[str], NodesPage]
NODE_INVENTORY = """# my machines
version = 1

[nodes.old]  # the one under the desk
address = "10.0.0.9"  # by cable
port = 2222

[groups.all]
nodes = ["old"]
"""


def node_inventory(home: Path) -> dict[str, Any]:
    return tomllib.loads((home / "nodes.toml").read_text())


def test_there_is_a_field_for_each_key_of_the_schema() -> None:
    named = [field for fields in fields_by_heading().values() for field in fields]
    assert {field.name for field in named} == set(NodeEntry.model_fields)
    assert [field.name for field in named if field.required] == ["address"]
    assert {field.name for field in named if field.is_number} == {"port", "devices", "max_ranks"}
    assert {field.name for field in named if field.is_list} == {"jump", "trusted_owners", "devices", "tags"}
    assert all(field.help for field in named)


@given(st.lists(st.integers(0, 1023), min_size=1, max_size=5), st.integers(1, 65535))
def test_what_is_shown_in_a_field_reads_as_what_it_was(devices: list[int], port: int) -> None:
    named = {field.name: field for fields in fields_by_heading().values() for field in fields}
    assert named["devices"].value(named["devices"].text(devices)) == devices
    assert named["port"].value(named["port"].text(port)) == port
    assert named["tags"].value(" fast , lab,") == ["fast", "lab"]
    assert named["user"].value("  ") is None


def test_a_node_is_tried_while_it_is_typed_and_then_written(
    hosts: Callable[..., TestHosts],
    board: Board,
    asker: WindowAsker,
    torchdeck_home: Path,
    qtbot: QtBot,
) -> None:
    made = hosts(1)
    (torchdeck_home / "known_hosts").unlink()
    place = board("# mine\nversion = 1\n")
    qtbot.mouseClick(place.buttons[0], Qt.MouseButton.LeftButton)
    dialog = place.findChild(NodeDialog)
    assert dialog is not None
    assert not dialog.save_button.isEnabled()
    for name, text in (("name", "gpu0"), ("user", "root"), ("key", str(made.key)), ("address", "no host/")):
        qtbot.keyClicks(dialog.form.lines[name], text)
    assert "Expected: a host name or address" in dialog.form.problem("address")
    assert not dialog.save_button.isEnabled()
    dialog.form.lines["address"].clear()
    qtbot.keyClicks(dialog.form.lines["address"], made.address(1))
    assert dialog.form.problem("address") == ""
    qtbot.waitUntil(lambda: KEY in dialog.steps.steps, timeout=SLOW)
    assert dialog.steps.steps[ANSWERS].status == "ok"
    assert dialog.steps.steps[KEY].status == "warning"
    assert "SHA256:" in dialog.steps.steps[KEY].sentence
    assert asker.dialog is None
    qtbot.waitUntil(dialog.steps.ask_button.isVisible)
    qtbot.mouseClick(dialog.steps.ask_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: isinstance(asker.dialog, FingerprintDialog), timeout=SLOW)
    accept(asker.dialog)
    qtbot.waitUntil(lambda: HOME in dialog.steps.steps, timeout=SLOW)
    found = {number: step.status for number, step in dialog.steps.steps.items()}
    assert [found[step] for step in (ANSWERS, KEY, LOGIN, PYTHON, HOME)] == ["ok"] * 5
    assert TORCH in found
    qtbot.mouseClick(dialog.save_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: "gpu0" in place.board.cards, timeout=SLOW)
    assert node_inventory(torchdeck_home)["nodes"]["gpu0"]["address"] == made.address(1)
    assert (torchdeck_home / "nodes.toml").read_text().startswith("# mine\n")


def accept(dialog: QDialog | None) -> None:
    assert isinstance(dialog, FingerprintDialog)
    dialog.trust_button.click()


def test_what_does_not_answer_is_said_to_and_can_be_written_all_the_same(
    board: Board, torchdeck_home: Path, qtbot: QtBot
) -> None:
    place = board("version = 1\n")
    dialog = place.add_node()
    qtbot.keyClicks(dialog.form.lines["name"], "gone")
    qtbot.keyClicks(dialog.form.lines["address"], "127.0.0.1")
    qtbot.keyClicks(dialog.form.lines["port"], "1")
    qtbot.waitUntil(lambda: ANSWERS in dialog.steps.steps, timeout=SLOW)
    step = dialog.steps.steps[ANSWERS]
    assert step.status == "failed"
    assert step.sentence.startswith("Node gone: ")
    dialog.save()
    qtbot.waitUntil(lambda: "gone" in place.board.cards, timeout=SLOW)
    assert node_inventory(torchdeck_home)["nodes"]["gone"]["port"] == 1


def test_changing_a_node_keeps_the_comments_and_a_taken_name_is_refused(
    board: Board, torchdeck_home: Path, qtbot: QtBot
) -> None:
    place = board(NODE_INVENTORY)
    qtbot.waitUntil(lambda: "old" in place.board.cards, timeout=SLOW)
    dialog = place.edit_node("old")
    assert dialog.form.lines["name"].isReadOnly()
    assert dialog.form.lines["port"].text() == "2222"
    dialog.form.lines["port"].clear()
    qtbot.keyClicks(dialog.form.lines["port"], "x")
    assert dialog.form.problem("port").startswith('✕ "x" is')
    dialog.form.lines["port"].clear()
    qtbot.keyClicks(dialog.form.lines["port"], "2022")
    qtbot.keyClicks(dialog.form.lines["tags"], "lab, fast")
    dialog.save()
    qtbot.waitUntil(lambda: node_inventory(torchdeck_home)["nodes"]["old"]["port"] == 2022, timeout=SLOW)
    text = (torchdeck_home / "nodes.toml").read_text()
    assert text.replace("2022", "2222").replace('tags = ["lab", "fast"]\n', "") == NODE_INVENTORY
    other = place.add_node()
    qtbot.keyClicks(other.form.lines["address"], "10.0.0.1")
    qtbot.keyClicks(other.form.lines["name"], "all")
    assert "This name is taken" in other.form.problem("name")
    other.reject()


def test_a_removed_node_comes_back_byte_for_byte(board: Board, torchdeck_home: Path, qtbot: QtBot) -> None:
    place = board(NODE_INVENTORY)
    qtbot.waitUntil(lambda: "old" in place.board.cards, timeout=SLOW)
    menu = place.board.cards["old"].menu
    next(action for action in menu.actions() if action.text() == "Remove …").trigger()
    box = place.removal.dialog
    assert box is not None
    next(button for button in box.findChildren(QPushButton) if button.text() == "Remove").click()
    qtbot.waitUntil(lambda: not place.board.cards, timeout=SLOW)
    assert "nodes" not in node_inventory(torchdeck_home)
    assert "groups" not in node_inventory(torchdeck_home)
    qtbot.waitUntil(lambda: place.bar.text.text() == "Removed old", timeout=SLOW)
    qtbot.mouseClick(place.bar.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: "old" in place.board.cards, timeout=SLOW)
    assert (torchdeck_home / "nodes.toml").read_text() == NODE_INVENTORY


def test_a_node_is_put_back_into_a_book_that_was_changed_since(
    board: Board, torchdeck_home: Path, qtbot: QtBot
) -> None:
    place = board(NODE_INVENTORY)
    qtbot.waitUntil(lambda: "old" in place.board.cards, timeout=SLOW)
    place.removal.ask("old")
    assert place.removal.dialog is not None
    buttons = place.removal.dialog.findChildren(QPushButton)
    next(button for button in buttons if button.text() == "Remove").click()
    qtbot.waitUntil(lambda: place.bar.button.isVisible(), timeout=SLOW)
    with (torchdeck_home / "nodes.toml").open("a") as file:
        file.write('[nodes.new]\naddress = "10.0.0.1"\n')
    qtbot.mouseClick(place.bar.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: {"old", "new"} == set(place.board.cards), timeout=SLOW)
    assert node_inventory(torchdeck_home)["nodes"]["old"] == {"address": "10.0.0.9", "port": 2222}


def test_hosts_of_the_ssh_config_become_nodes(
    theme: Theme, operations: Operations, logins: Logins, torchdeck_home: Path, tmp_path: Path, qtbot: QtBot
) -> None:
    (torchdeck_home / "nodes.toml").write_text(tomlkit.dumps({"nodes": {"gpu0": {"address": "gpu0"}}}))
    config = tmp_path / "config"
    config.write_text(
        "Host gpu0\n HostName 10.0.0.1\nHost gpu1\n HostName 10.0.0.2\n Port 2022\n"
        "Host far\n HostName far.example\n ProxyCommand nc %h %p\nHost gpu2\n HostName 10.0.0.3\n"
        "Host *\n User me\n"
    )
    dialog = ImportDialog(theme, operations, logins, ["gpu0"], file=config)
    qtbot.addWidget(dialog)
    dialog.open()
    qtbot.waitUntil(lambda: dialog.list.topLevelItemCount() == 4, timeout=SLOW)
    assert dialog.chosen == ["gpu1", "gpu2"]
    assert dialog.import_button.text() == "Import 2 nodes"
    header = dialog.list.header()
    names = dialog.list.fontMetrics().horizontalAdvance("gpu0")
    assert header.sectionSize(0) > names + 3 * 8, "no name is cut beside its box"
    item = dialog.list.topLevelItem(3)
    assert item is not None
    item.setCheckState(0, Qt.CheckState.Unchecked)
    assert dialog.import_button.text() == "Import 1 node"
    with qtbot.waitSignal(dialog.imported) as said:
        dialog.import_button.click()
    assert said.args == [["gpu1"]]
    nodes = node_inventory(torchdeck_home)["nodes"]
    assert nodes["gpu1"] == {"address": "10.0.0.2", "port": 2022, "user": "me"}
    assert set(nodes) == {"gpu0", "gpu1"}


def test_without_an_ssh_config_that_is_said(
    theme: Theme, operations: Operations, logins: Logins, tmp_path: Path, qtbot: QtBot
) -> None:
    dialog = ImportDialog(theme, operations, logins, [], file=tmp_path / "none")
    qtbot.addWidget(dialog)
    dialog.open()
    qtbot.waitUntil(lambda: dialog.said.text().startswith("There is no file"), timeout=SLOW)
    assert not dialog.import_button.isEnabled()
    assert dialog.empty.isVisible()
    with qtbot.waitSignal(dialog.add_asked):
        dialog.empty.button.click()
    assert not dialog.isVisible()


def test_a_book_that_is_wrong_is_said_to_be(board: Board, torchdeck_home: Path, qtbot: QtBot) -> None:
    place = board("[nodes.a]\nadress = 3\n")
    qtbot.waitUntil(place._problem.isVisible, timeout=SLOW)
    assert "adress" in place._problem.text()
    (torchdeck_home / "nodes.toml").write_text('[nodes.a]\naddress = "127.0.0.1"\nport = 1\n')
    qtbot.waitUntil(lambda: "a" in place.board.cards, timeout=SLOW)
    assert not place._problem.isVisible()


@pytest.mark.parametrize("name", ["closing", "left"])
def test_what_is_left_looks_no_more(board: Board, name: str, qtbot: QtBot) -> None:
    place = board('[nodes.a]\naddress = "127.0.0.1"\nport = 1\n')
    qtbot.waitUntil(lambda: place.live.open_watches == 1, timeout=SLOW)
    getattr(place, name)()
    assert place.live.open_watches == 0


def test_an_empty_field_shows_its_default() -> None:
    fields = {field.name: field for each in fields_by_heading().values() for field in each}
    assert fields["python"].default == "python3"
    assert fields["port"].default == "that of ~/.ssh/config, else 22"
    assert fields["address"].default.startswith("required: ")
