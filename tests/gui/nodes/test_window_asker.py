"""Questions from threads that connect: one at a time, remembered where that was asked for."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keyring
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from gui.nodes.conftest import SLOW
from support.hosts.file_keyring import FILE_VARIABLE, FileKeyring
from torchdeck.nodes.ssh.keyring_store import Keyring
from torchdeck.nodes.ssh.target import SshTarget
from torchdeck_app.nodes.window_asker import FingerprintDialog, SecretDialog, WindowAsker

ONE, OTHER = SshTarget("n", "h", 22, "me"), SshTarget("m", "g", 22, "me")


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A keyring that keeps secrets in a file."""
    secrets = tmp_path / "secrets"
    monkeypatch.setenv(FILE_VARIABLE, str(secrets))
    monkeypatch.setattr("keyring.core._keyring_backend", keyring.get_keyring())  # put back at the end
    keyring.set_keyring(FileKeyring())
    return secrets


class Asking:
    """A thread that asks, as one that connects does."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.answer: Any = "none yet"
        self._thread = threading.Thread(target=lambda: setattr(self, "answer", call()), daemon=True)
        self._thread.start()

    def is_over(self) -> bool:
        return not self._thread.is_alive()


def dialog(asker: WindowAsker, qtbot: QtBot) -> SecretDialog:
    qtbot.waitUntil(lambda: asker.dialog is not None, timeout=SLOW)
    found = asker.dialog
    assert isinstance(found, SecretDialog)
    return found


def test_one_question_is_asked_at_a_time(asker: WindowAsker, qtbot: QtBot) -> None:
    both = [Asking(lambda target=target: asker.password(target, again=False)) for target in (ONE, OTHER)]  # type: ignore[misc]
    for number in range(2):
        shown = dialog(asker, qtbot)
        visible = [each for each in QApplication.topLevelWidgets() if isinstance(each, SecretDialog)]
        assert [each for each in visible if each.isVisible()] == [shown]
        shown.line.setText(f"secret {number}")
        shown.accept()
    qtbot.waitUntil(lambda: all(each.is_over() for each in both), timeout=SLOW)
    assert {each.answer for each in both} == {"secret 0", "secret 1"}


def test_what_was_declined_is_asked_again_only_when_it_is_wanted(asker: WindowAsker, qtbot: QtBot) -> None:
    first = Asking(lambda: asker.password(ONE, again=False))
    dialog(asker, qtbot).reject()
    qtbot.waitUntil(first.is_over, timeout=SLOW)
    assert first.answer is None
    second = Asking(lambda: asker.password(ONE, again=False))
    qtbot.waitUntil(second.is_over, timeout=SLOW)
    assert second.answer is None
    asker.ask_again()
    third = Asking(lambda: asker.password(ONE, again=False))
    shown = dialog(asker, qtbot)
    shown.line.setText("now")
    shown.accept()
    qtbot.waitUntil(third.is_over, timeout=SLOW)
    assert third.answer == "now"


def test_closing_the_window_declines_what_is_asked_and_what_waits(asker: WindowAsker, qtbot: QtBot) -> None:
    both = [Asking(lambda target=target: asker.password(target, again=False)) for target in (ONE, OTHER)]  # type: ignore[misc]
    dialog(asker, qtbot)
    asker.close()
    qtbot.waitUntil(lambda: all(each.is_over() for each in both), timeout=SLOW)
    assert [each.answer for each in both] == [None, None]


def test_a_password_goes_into_the_keyring_only_when_that_was_asked_for(
    asker: WindowAsker, backend: Path, torchdeck_home: Path, qtbot: QtBot
) -> None:
    torchdeck_home.mkdir(exist_ok=True)
    for remember, kept in ((False, []), (True, ["password of me@h:22"])):
        asking = Asking(lambda: asker.password(ONE, again=False))
        shown = dialog(asker, qtbot)
        assert shown.remember.isVisible()
        assert not shown.remember.isChecked()
        shown.line.setText("pass-canary")
        shown.remember.setChecked(remember)
        shown.accept()
        qtbot.waitUntil(asking.is_over, timeout=SLOW)
        assert Keyring(torchdeck_home).names == kept
    assert "pass-canary" in backend.read_text()
    wrong = Asking(lambda: asker.password(ONE, again=True))
    dialog(asker, qtbot).reject()
    qtbot.waitUntil(wrong.is_over, timeout=SLOW)
    assert Keyring(torchdeck_home).names == [], "what was wrong is not kept"


def test_the_gui_thread_is_never_made_to_wait_for_itself(asker: WindowAsker) -> None:
    with pytest.raises(RuntimeError, match="the GUI thread cannot wait"):
        asker.password(ONE, again=False)


def test_what_becomes_of_a_secret_is_said_as_it_is_chosen(qtbot: QtBot) -> None:
    asked = SecretDialog("Password of n", "me@h:22", again=False, can_remember=True)
    qtbot.addWidget(asked)
    assert "never written to disk" in asked.kept.text()
    asked.remember.setChecked(True)
    assert "keyring" in asked.kept.text()
    assert "nowhere" not in asked.kept.text()


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        ("ssh-ed25519", "ssh_host_ed25519_key.pub"),
        ("ecdsa-sha2-nistp256", "ssh_host_ecdsa_key.pub"),
        ("ssh-rsa", "ssh_host_rsa_key.pub"),
    ],
)
def test_the_command_to_compare_with_is_of_the_keys_own_kind(kind: str, file: str, qtbot: QtBot) -> None:
    asked = FingerprintDialog("n", "h", kind, "SHA256:x")
    qtbot.addWidget(asked)
    assert any(file in each.text() for each in asked.findChildren(QLabel))


def test_the_command_to_compare_with_can_be_taken_away_whole(qtbot: QtBot) -> None:
    asked = FingerprintDialog("n", "h", "ssh-ed25519", "SHA256:x")
    qtbot.addWidget(asked)
    assert asked.command.text() == "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub"
    assert asked.command.textInteractionFlags() & Qt.TextInteractionFlag.TextSelectableByMouse
