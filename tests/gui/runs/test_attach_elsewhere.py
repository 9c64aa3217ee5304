"""A run that another machine has started is followed from here."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from gui.runs.conftest import Opened
from support.cli.asking import Person
from support.cli.command import Command
from support.hosts.hosts import PASSWORD, TestHosts
from support.hosts.hosts_run import HostsRun, write_inventory
from torchdeck_app.bridge.logins import make_logins
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.runs.abilities import RunCommand
from torchdeck_app.runs.elsewhere.attach_elsewhere import AttachDialog
from torchdeck_app.runs.runs_page import RunsPage

SLOW = 90_000
"""Milliseconds for what another machine takes part in."""
RUN = """
[run]
script = "t.py"
[distributed]
nodes = ["node1"]
nproc = 1
devices = "cpu"
[limits]
min_free_disk = "1MiB"
"""
SCRIPT = """
import time
print("it continues", flush=True)
time.sleep(600)
"""


@pytest.fixture
def person() -> Person:
    return Person(passwords=[PASSWORD])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Of the machine that is sat at now."""
    made = tmp_path / "this home"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def place(opened: Opened, home: Path, person: Person) -> RunsPage:
    return opened(home, make_logins(home, person))


def asked(qtbot: QtBot, place: RunsPage) -> AttachDialog:
    place.actions_of_runs[RunCommand.ATTACH_ELSEWHERE].trigger()
    qtbot.waitUntil(lambda: place.elsewhere.dialog is not None)
    assert place.elsewhere.dialog is not None
    return place.elsewhere.dialog


def test_without_nodes_it_says_what_to_do(qtbot: QtBot, place: RunsPage) -> None:
    told: list[str] = []
    place.elsewhere.failed.connect(told.append)
    place.actions_of_runs[RunCommand.ATTACH_ELSEWHERE].trigger()
    qtbot.waitUntil(lambda: told == ["There are no nodes yet: add the run's in Nodes"])


def test_a_run_of_a_node_comes_here_and_is_followed(
    qtbot: QtBot,
    hosts: Callable[..., TestHosts],
    torchdeck_home: Path,
    tmp_path: Path,
    place: RunsPage,
    operations: Operations,
    home: Path,
    person: Person,
) -> None:
    """What is asked for is asked once; a run that is not there is said in the dialog, which stays."""
    there = HostsRun(hosts(1), torchdeck_home)
    work = tmp_path / "work"
    work.mkdir()
    (work / "t.py").write_text(SCRIPT)
    (work / "run.toml").write_text(RUN)
    started = there.command.run("--no-gui", "--detach", work / "run.toml")
    assert started.returncode == 0, started.stderr
    qtbot.waitUntil(lambda: there.run.attempt(1).rank(0).stdout.is_file(), timeout=SLOW)
    os.kill(there.controller(), signal.SIGKILL)
    there.made.allow_passwords(1)
    there.made.trust(home)
    write_inventory(there.made, home, {1: {"key": None}})

    dialog = asked(qtbot, place)
    assert [dialog.node.itemText(at) for at in range(dialog.node.count())] == ["node1"]
    dialog.run.setText("20200101")
    QTest.mouseClick(dialog.start_button, Qt.MouseButton.LeftButton)
    assert not dialog.start_button.isEnabled()
    qtbot.waitUntil(lambda: "there is no run '20200101'" in dialog.message.lower(), timeout=SLOW)
    dialog.run.setText("latest")
    QTest.mouseClick(dialog.start_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: "the leader of the run" in dialog.message, timeout=SLOW)
    dialog.reject()
    qtbot.waitUntil(lambda: not operations.running, timeout=SLOW)
    assert list((home / "runs").glob("*")) == [], "what was cancelled half way is no run here"

    dialog = asked(qtbot, place)
    QTest.mouseClick(dialog.start_button, Qt.MouseButton.LeftButton)
    run_id = there.run.root.name
    qtbot.waitUntil(
        lambda: place.page is not None and place.page.run_layout.root.name == run_id, timeout=SLOW
    )
    assert place.elsewhere.dialog is None
    page = place.page
    assert page is not None
    qtbot.waitUntil(lambda: page.header.links.words == "● node1 connected", timeout=SLOW)
    assert person.asked == [("password", f"root@{there.made.address(1)}:22")]
    assert [run.root.name for run in Command(home).runs()] == [run_id]
    qtbot.waitUntil(page.header.buttons[RunCommand.STOP_NOW].isEnabled, timeout=SLOW)
    QTest.mouseClick(page.header.buttons[RunCommand.STOP_NOW], Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: page.header.state_word == "cancelled", timeout=SLOW)
    there.wait_empty()
