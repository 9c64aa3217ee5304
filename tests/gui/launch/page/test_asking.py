"""A preview whose node wants a password, while Launch is out of sight and once it is not."""

from collections.abc import Callable
from pathlib import Path

from pytestqt.qtbot import QtBot

from support.cli.asking import Person
from support.gui.launch_place import opened, write_script
from support.hosts.hosts import TestHosts
from torchdeck_app.bridge.logins import make_logins
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.launch_page import LaunchPage
from torchdeck_app.theme.theme import Theme

SLOW = 30_000
"""Milliseconds for what another machine takes part in."""


def test_a_password_is_asked_for_once_somebody_looks(
    hosts: Callable[..., TestHosts],
    torchdeck_home: Path,
    tmp_path: Path,
    theme: Theme,
    operations: Operations,
    qtbot: QtBot,
) -> None:
    """As a window that opens with another place in sight takes up the run file of the one before."""
    made = hosts(1)
    person = Person(passwords=[made.allow_passwords(1)])
    (torchdeck_home / "nodes.toml").write_text(made.nodes_toml().replace(f'key = "{made.key}"\n', ""))
    file = write_script(tmp_path)
    file.write_text(f'{file.read_text()}nodes = ["node1"]\n')
    logins = make_logins(torchdeck_home, person)
    place = LaunchPage(theme, operations, torchdeck_home, drafts=tmp_path / "drafts", logins=logins)
    qtbot.addWidget(place)
    opened(qtbot, place, file)
    service = place.service
    qtbot.waitUntil(lambda: "node1" in str(service.state.problems), timeout=SLOW)
    assert person.asked == []
    place.entered()
    qtbot.waitUntil(lambda: service.state.preview is not None, timeout=SLOW)
    assert person.asked == [("password", f"root@{made.address(1)}:22")]
    place.left()
    place.closing()
    place.document.close(5.0)
