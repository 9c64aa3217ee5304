"""The board of nodes, with real hosts: reached, refused, asked about, cleaned."""

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QLabel, QPushButton
from pytestqt.qtbot import QtBot

from gui.nodes.conftest import SLOW
from support.hosts.hosts import TestHosts, make_key
from torchdeck.use_cases.nodes.node_trial import LOGIN
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.nodes.node_dialog import NodeDialog
from torchdeck_app.nodes.node_sight import Standing
from torchdeck_app.nodes.nodes_page import NODES, NodesPage
from torchdeck_app.nodes.window_asker import FingerprintDialog, SecretDialog, WindowAsker

Hosts = Callable[..., TestHosts]
Board = Callable[[str], NodesPage]


def standing(place: NodesPage, name: str) -> Standing | None:
    sight = place.live.sights.get(name)
    return None if sight is None else sight.standing


def wait_for(qtbot: QtBot, place: NodesPage, name: str, wanted: Standing) -> None:
    qtbot.waitUntil(lambda: standing(place, name) is wanted, timeout=SLOW)


def said(place: NodesPage, name: str) -> str:
    labels = place.board.cards[name].findChildren(QLabel)
    return "\n".join(text.text() for text in labels if text.isVisibleTo(place.board))


def question(asker: WindowAsker, kind: type[QDialog], qtbot: QtBot) -> Any:
    qtbot.waitUntil(lambda: isinstance(asker.dialog, kind), timeout=SLOW)
    return asker.dialog


def test_nodes_are_reached_and_are_live_until_the_place_is_left(
    hosts: Hosts, board: Board, qtbot: QtBot
) -> None:
    made = hosts(2)
    place = board(made.nodes_toml())
    for name in ("node1", "node2"):
        wait_for(qtbot, place, name, Standing.REACHED)
        qtbot.waitUntil(lambda name=name: place.live.sights[name].sample is not None, timeout=SLOW)  # type: ignore[misc]
    assert place.tabs.currentIndex() == NODES
    assert "2 nodes: 2 connected" in {text.text() for text in place.findChildren(QLabel)}
    words = said(place, "node1")
    assert f"root@{made.address(1)}" in words
    assert "● connected" in words
    assert "torch 2" in words
    first = place.live.sights["node1"].sample
    assert first is not None
    qtbot.waitUntil(lambda: newer(place, first.time), timeout=SLOW)
    card = place.board.cards["node1"]
    assert (
        card._charts["CPU"].accessibleDescription().endswith("%")
        or "% of" in card._charts["CPU"].accessibleDescription()
    )
    place.left()
    assert place.live.open_watches == 0
    qtbot.waitUntil(lambda: not [*probes(made, 1), *probes(made, 2)], timeout=SLOW)


def newer(place: NodesPage, time: float) -> bool:
    sample = place.live.sights["node1"].sample
    return sample is not None and sample.time > time


def probes(made: TestHosts, host: int) -> list[str]:
    """Pythons on the host that answer questions."""
    listed = made.enter(host, ["ps", "-eo", "args"]).stdout.splitlines()
    return [line for line in listed if "importlib.abc" in line]


def test_a_node_that_goes_away_is_said_to_and_comes_back(hosts: Hosts, board: Board, qtbot: QtBot) -> None:
    made = hosts(1)
    place = board(made.nodes_toml())
    wait_for(qtbot, place, "node1", Standing.REACHED)
    made.power_off(1)
    wait_for(qtbot, place, "node1", Standing.UNREACHABLE)
    card = place.board.cards["node1"]
    assert "✕ unreachable" in said(place, "node1")
    assert "connection" in card._why.text()
    assert card.help_button.text() == "Try again"
    made.boot(1)
    qtbot.mouseClick(card.help_button, Qt.MouseButton.LeftButton)
    wait_for(qtbot, place, "node1", Standing.REACHED)
    assert not card._why.isVisible()
    assert not card.help_button.isVisible()


def test_an_unknown_key_is_shown_and_asked_about(
    hosts: Hosts, board: Board, asker: WindowAsker, torchdeck_home: Path, qtbot: QtBot
) -> None:
    made = hosts(1)
    (torchdeck_home / "known_hosts").unlink()
    place = board(made.nodes_toml())
    wait_for(qtbot, place, "node1", Standing.KEY_UNKNOWN)
    assert asker.dialog is None, "the board asks by itself"
    card = place.board.cards["node1"]
    qtbot.mouseClick(card.help_button, Qt.MouseButton.LeftButton)
    asked = question(asker, FingerprintDialog, qtbot)
    assert asked.host.text() == made.address(1)
    shown = subprocess.run(
        ["ssh-keygen", "-lf", "-"], input=made.known_hosts, capture_output=True, text=True, check=True
    ).stdout
    assert asked.fingerprint.text() in shown
    assert asked.refuse_button.isDefault()
    asked.refuse_button.click()
    wait_for(qtbot, place, "node1", Standing.KEY_UNKNOWN)
    assert not (torchdeck_home / "known_hosts").exists()
    qtbot.waitUntil(card.help_button.isVisible)
    qtbot.mouseClick(card.help_button, Qt.MouseButton.LeftButton)
    question(asker, FingerprintDialog, qtbot).trust_button.click()
    wait_for(qtbot, place, "node1", Standing.REACHED)
    assert made.address(1) in (torchdeck_home / "known_hosts").read_text()


def test_a_changed_key_is_refused_and_never_asked_about(
    hosts: Hosts, board: Board, asker: WindowAsker, qtbot: QtBot
) -> None:
    made = hosts(1)
    made.change_host_key(1)
    place = board(made.nodes_toml())
    wait_for(qtbot, place, "node1", Standing.KEY_CHANGED)
    card = place.board.cards["node1"]
    assert "is another one than before" in card._why.text()
    assert "`ssh-keygen -R " in card._why.text(), "the command that helps is on the card"
    with qtbot.assertNotEmitted(asker._asked):
        before = place.live.sights["node1"]
        qtbot.mouseClick(card.help_button, Qt.MouseButton.LeftButton)
        qtbot.waitUntil(lambda: place.live.sights["node1"] is not before, timeout=SLOW)
        wait_for(qtbot, place, "node1", Standing.KEY_CHANGED)


def test_a_python_that_does_not_run_is_named_with_the_way_to_another(
    hosts: Hosts, board: Board, qtbot: QtBot
) -> None:
    made = hosts(1)
    place = board(inventory_text({"n1": {**made.entry(1), "python": "/opt/no/python"}}))
    wait_for(qtbot, place, "n1", Standing.NO_PYTHON)
    card = place.board.cards["n1"]
    assert "/opt/no/python" in card._why.text()
    assert card._why.text().endswith("→ Choose another Python for it")
    qtbot.mouseClick(card.help_button, Qt.MouseButton.LeftButton)
    (dialog,) = place.findChildren(NodeDialog)
    assert dialog.isVisible()
    dialog.reject()


def test_a_password_is_asked_for_again_when_it_was_wrong(
    hosts: Hosts, board: Board, asker: WindowAsker, torchdeck_home: Path, qtbot: QtBot
) -> None:
    made = hosts(1)
    password = made.allow_passwords(1)
    entry = {key: value for key, value in made.entry(1).items() if key != "key"}
    place = board(inventory_text({"n1": entry}))
    wait_for(qtbot, place, "n1", Standing.NEEDS_LOGIN)
    card = place.board.cards["n1"]
    assert card.help_button.text() == "Log in …"
    qtbot.mouseClick(card.help_button, Qt.MouseButton.LeftButton)
    asked = question(asker, SecretDialog, qtbot)
    assert not asked.remember.isVisible(), "there is no keyring here"
    asked.line.setText("wrong")
    asked.accept()
    qtbot.waitUntil(lambda: asker.dialog is not None and asker.dialog is not asked, timeout=SLOW)
    again = question(asker, SecretDialog, qtbot)
    assert any("wrong" in text.text() for text in again.findChildren(QLabel))
    again.line.setText(password)
    again.accept()
    wait_for(qtbot, place, "n1", Standing.REACHED)
    kept = [path for path in torchdeck_home.rglob("*") if path.is_file()]
    assert not [path for path in kept if password.encode() in path.read_bytes()]


def test_a_password_that_was_given_elsewhere_lets_the_board_in(
    hosts: Hosts, board: Board, asker: WindowAsker, logins: Logins, qtbot: QtBot
) -> None:
    made = hosts(1)
    password = made.allow_passwords(1)
    place = board(made.nodes_toml().replace(f'key = "{made.key}"\n', ""))
    wait_for(qtbot, place, "node1", Standing.NEEDS_LOGIN)
    elsewhere = threading.Thread(target=lambda: logins.asking.connect("node1", 20).close())
    elsewhere.start()
    asked = question(asker, SecretDialog, qtbot)
    asked.line.setText(password)
    asked.accept()
    qtbot.waitUntil(lambda: not elsewhere.is_alive(), timeout=SLOW)
    place.matrix.over.emit()
    wait_for(qtbot, place, "node1", Standing.REACHED)
    assert asker.dialog is None


def test_orphans_are_cleaned_once_that_is_agreed_to(hosts: Hosts, board: Board, qtbot: QtBot) -> None:
    made = hosts(1)
    argv = ["env", "TORCHDECK_RUN_ID=a-dead-run", "RANK=3", "sleep", "300"]
    orphan = subprocess.Popen([*made.enter_argv(1), *argv])
    try:
        place = board(made.nodes_toml())
        qtbot.waitUntil(
            lambda: bool(place.live.sights.get("node1") and place.live.sights["node1"].orphans), timeout=SLOW
        )
        card = place.board.cards["node1"]
        assert card._orphans.text() == "1 process of a dead run is left"
        qtbot.mouseClick(card.clean_button, Qt.MouseButton.LeftButton)
        asked = place.cleaning.dialog
        assert asked is not None
        assert "a-dead-run" in asked.informativeText()
        press(asked, "Cancel", qtbot)
        assert orphan.poll() is None
        qtbot.mouseClick(card.clean_button, Qt.MouseButton.LeftButton)
        press(place.cleaning.dialog, "End them", qtbot)
        qtbot.waitUntil(lambda: place.bar.text.text() == "node1: 1 process ended", timeout=SLOW)
        orphan.wait(10)
        qtbot.waitUntil(lambda: not card.clean_button.isVisible(), timeout=SLOW)
    finally:
        orphan.kill()
        orphan.wait(10)


def press(box: Any, text: str, qtbot: QtBot) -> None:
    button = next(button for button in box.findChildren(QPushButton) if button.text() == text)
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def inventory_text(nodes: dict[str, dict[str, Any]]) -> str:
    import tomlkit

    return tomlkit.dumps({"version": 1, "nodes": nodes})


def test_where_no_password_is_taken_a_key_is_to_be_named_instead(
    hosts: Hosts, board: Board, tmp_path: Path, qtbot: QtBot
) -> None:
    """Neither the board nor the dialog offers to ask for what the node does not take."""
    made = hosts(1)
    entry = made.entry(1, key=str(make_key(tmp_path / "other")))
    place = board(inventory_text({"n1": entry}))
    wait_for(qtbot, place, "n1", Standing.NEEDS_KEY)
    card = place.board.cards["n1"]
    assert card.help_button.text() == "Edit …"
    assert "Name a key that it knows" in card._why.text()
    qtbot.mouseClick(card.help_button, Qt.MouseButton.LeftButton)
    (dialog,) = place.findChildren(NodeDialog)
    qtbot.waitUntil(lambda: LOGIN in dialog.steps.steps, timeout=SLOW)
    assert dialog.steps.steps[LOGIN].status == "failed"
    assert dialog.steps.ask_button.isHidden()
    dialog.reject()
