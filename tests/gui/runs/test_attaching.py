"""A run on another machine, which wants a password, is taken up, stopped and resumed from its page."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from gui.runs.conftest import Opened
from support.cli.asking import Person
from support.hosts.hosts import PASSWORD, TestHosts
from support.hosts.hosts_run import HostsRun, write_inventory
from support.training.training import Training
from torchdeck.launching.requests import read_requests
from torchdeck.nodes.ssh.target import SshTarget
from torchdeck_app.bridge.logins import make_logins
from torchdeck_app.bridge.operations import Operation, Operations
from torchdeck_app.runs.abilities import RunCommand
from torchdeck_app.runs.page.run_page import RunPage

SLOW = 90_000
"""Milliseconds for what another machine takes part in."""


@pytest.fixture
def there(hosts: Callable[..., TestHosts], torchdeck_home: Path, tmp_path: Path) -> HostsRun:
    """A run that trains on one host, whose controller was killed; from then on the host wants a password."""
    made = HostsRun(hosts(1), torchdeck_home)
    training = Training(tmp_path / "work", nproc=1, steps=100_000)
    nodes = ("--set", 'distributed.nodes=["node1"]')
    done = made.command.run("--no-gui", "--trust", "--detach", *nodes, training.write(0.05))
    assert done.returncode == 0, done.stdout + done.stderr
    made.wait_step(2)
    os.kill(made.controller(), signal.SIGKILL)
    made.made.allow_passwords(1)
    write_inventory(made.made, torchdeck_home, {1: {"key": None}})
    return made


class Hesitant(Person):
    """Does something else before answering."""

    def __init__(self) -> None:
        super().__init__(passwords=[PASSWORD])
        self.first: Callable[[], None] = lambda: None

    def password(self, target: SshTarget, *, again: bool) -> str | None:
        """In a worker, as a dialog's answer is waited for."""
        self.first()
        return super().password(target, again=again)


@pytest.fixture
def person() -> Hesitant:
    return Hesitant()


@pytest.fixture
def page(qtbot: QtBot, opened: Opened, there: HostsRun, torchdeck_home: Path, person: Person) -> RunPage:
    place = opened(torchdeck_home, make_logins(torchdeck_home, person))
    place.open_run(there.run.root.name)
    qtbot.waitUntil(lambda: place.page is not None, timeout=SLOW)
    assert place.page is not None
    return place.page


def press(qtbot: QtBot, page: RunPage, what: RunCommand) -> None:
    """Press a button of the header, once it can be pressed."""
    button = page.header.buttons[what]
    qtbot.waitUntil(lambda: button.isVisible() and button.isEnabled(), timeout=SLOW)
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)


def test_a_run_without_a_controller_is_attached_to_stopped_and_resumed(
    qtbot: QtBot, there: HostsRun, page: RunPage, person: Person, request: pytest.FixtureRequest
) -> None:
    """The password is asked for once, off the GUI thread, and each controller gets it.

    A normal run resumes from the window in gui/journeys/test_training.py.
    """
    press(qtbot, page, RunCommand.ATTACH)
    assert page.header.doing_now == "attaching: connecting to its nodes"
    qtbot.waitUntil(there.run_is_followed, timeout=SLOW)
    assert person.asked == [("password", f"root@{there.made.address(1)}:22")]
    qtbot.waitUntil(lambda: not page.header.buttons[RunCommand.ATTACH].isVisible(), timeout=SLOW)
    qtbot.waitUntil(lambda: page.header.links.words == "● node1 connected", timeout=SLOW)
    os.kill(there.controller(), signal.SIGKILL)
    press(qtbot, page, RunCommand.STOP)
    qtbot.waitUntil(lambda: page.header.state_word == "stopped", timeout=SLOW)
    assert not page.header.links.isVisible(), "nothing of a run that is over is reached"
    there.wait_empty()
    if not request.config.getoption("--soak"):
        assert len(person.asked) == 1
        return
    press(qtbot, page, RunCommand.RESUME)
    qtbot.waitUntil(lambda: page.header.state_word == "running", timeout=SLOW)
    assert there.run_is_followed()
    press(qtbot, page, RunCommand.STOP_NOW)
    qtbot.waitUntil(lambda: page.header.state_word == "stopped", timeout=SLOW)
    assert len(person.asked) == 1
    there.wait_empty()


def is_there(pid: int) -> bool:
    """Also as a zombie, which no one has reaped."""
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


@pytest.mark.soak
def test_what_is_cancelled_leaves_nothing_behind(
    qtbot: QtBot, there: HostsRun, page: RunPage, person: Hesitant, operations: Operations
) -> None:
    """A stop that was cancelled at its question never stops the run; a started controller is reaped."""
    person.first = lambda: operations.running[-1].cancel()
    press(qtbot, page, RunCommand.STOP)
    assert page.header.doing_now.startswith("stop: waiting for the run")
    qtbot.waitUntil(page.header.buttons[RunCommand.STOP].isEnabled, timeout=SLOW)
    assert person.asked, "it was asked, and then cancelled"
    assert read_requests(there.run.control) == []

    person.first = lambda: None
    before = there.controller()
    waited: list[str] = []

    def cancel_late(operation: Operation[object]) -> None:
        def look(what: str) -> None:
            if what == "starting controller":
                waited.append(what)
                operation.cancel()

        operation.progressed.connect(look)

    operations.started.connect(cancel_late)
    with qtbot.waitSignal(operations.ended, timeout=SLOW):
        press(qtbot, page, RunCommand.ATTACH)
    assert waited
    qtbot.waitUntil(lambda: there.run_is_followed() and there.controller() != before, timeout=SLOW)
    started = there.controller()
    os.kill(started, signal.SIGKILL)
    qtbot.waitUntil(lambda: not is_there(started), timeout=SLOW)
    assert page.header.state_word == "running", "the stop that was cancelled is not carried on"
    press(qtbot, page, RunCommand.STOP_NOW)
    qtbot.waitUntil(lambda: page.header.state_word == "cancelled", timeout=SLOW)
    there.wait_empty()
