"""Prompts from connection threads, shown in the window: one at a time, while the thread waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PySide6.QtCore import QCoreApplication, QObject, Qt, Signal
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLineEdit,
    QMessageBox,
    QVBoxLayout,
    QWidget,
)

from torchdeck.nodes.ssh.credentials import Credentials
from torchdeck.nodes.ssh.keyring_store import Keyring, KeyringError, passphrase_name, password_name
from torchdeck.nodes.ssh.target import DEFAULT_PORT, SshTarget
from torchdeck.shown_text import shown
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.widgets.panel import GRID, label

PATIENCE = 600.0
"""Seconds after which an unanswered question counts as declined."""


@dataclass
class _Question:
    """Question for which a thread waits."""

    name: str
    """Subject of the question: once declined, it is not asked again."""
    make: Callable[[QWidget | None], QDialog]
    read: Callable[[Any], Any]
    """Converts the accepted dialog to the answer."""
    answer: Any = None
    done: threading.Event = field(default_factory=threading.Event)
    dialog: QDialog | None = None


class WindowAsker(QObject):
    """`Asker` of the window. Declined questions are not repeated until `ask_again`.

    Args:
        home: TORCHDECK_HOME, whose secrets may be in the keyring.
        parent: Qt parent; it lives in the GUI thread.
    """

    _asked = Signal(object)
    _given_up = Signal(object)
    _trouble = Signal(str)

    def __init__(self, home: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._keyring = Keyring(home)
        self._one_at_a_time = threading.Lock()
        self._declined: set[str] = set()
        self._open: _Question | None = None
        self._is_closed = False
        queued = Qt.ConnectionType.QueuedConnection
        self._asked.connect(self._show, queued)
        self._given_up.connect(self._give_up, queued)
        self._trouble.connect(self._say, queued)
        app = QCoreApplication.instance()
        if app is not None:
            app.aboutToQuit.connect(self.close)

    @property
    def dialog(self) -> QDialog | None:
        """Return the open dialog."""
        return None if self._open is None else self._open.dialog

    def ask_again(self) -> None:
        """Allow declined questions again, after a user action on a node."""
        self._declined.clear()

    def close(self) -> None:
        """Decline all current and future questions: the window closes. In the GUI thread."""
        self._is_closed = True
        if self._open is not None and self._open.dialog is not None:
            self._open.dialog.reject()
        elif self._open is not None:
            self._open.done.set()

    # called from connection threads

    def password(self, target: SshTarget, *, again: bool) -> str | None:
        """Return the password of `target.login`."""
        return self._secret(
            password_name(target.login),
            f"Password of {target.name}",
            target.login,
            lambda secret: Credentials(passwords={target.login: secret}),
            again=again,
        )

    def passphrase(self, path: Path, *, again: bool) -> str | None:
        """Passphrase of a private key, entered by the user."""
        return self._secret(
            passphrase_name(str(path)),
            f"Passphrase of the key {path.name}",
            str(path),
            lambda secret: Credentials(passphrases={str(path): secret}),
            again=again,
        )

    def trust(self, target: SshTarget, key_type: str, fingerprint: str) -> bool:
        """Return whether the user accepts the host key."""
        port = "" if target.port == DEFAULT_PORT else f", port {target.port}"
        question = _Question(
            f"key {fingerprint} of {target.key_names[0]}",
            lambda parent: FingerprintDialog(
                target.name, f"{target.host}{port}", key_type, fingerprint, parent
            ),
            lambda _dialog: True,
        )
        return bool(self._answer(question))

    def _secret(
        self, name: str, title: str, what: str, held: Callable[[str], Credentials], *, again: bool
    ) -> str | None:
        if again:
            with suppress(KeyringError):
                self._keyring.forget([name])
        can_remember = self._keyring.is_there
        question = _Question(
            name,
            lambda parent: SecretDialog(title, what, again=again, can_remember=can_remember, parent=parent),
            lambda dialog: (dialog.secret, dialog.remember.isChecked()),
        )
        answer = self._answer(question)
        if answer is None:
            return None
        secret, remember = answer
        if remember:
            try:
                self._keyring.keep(held(secret))
            except KeyringError as error:
                self._trouble.emit(str(error))
        return str(secret)

    def _answer(self, question: _Question) -> Any:
        """Return the user's answer; None if declined, at once if it was declined before."""
        if threading.current_thread() is threading.main_thread():
            raise RuntimeError("the GUI thread cannot wait for an answer that is given in it")
        with self._one_at_a_time:
            if self._is_closed or question.name in self._declined:
                return None
            try:
                self._asked.emit(question)
            except RuntimeError:  # the window is gone
                return None
            if not question.done.wait(PATIENCE):
                self._given_up.emit(question)
            return question.answer

    # in the GUI thread

    def _show(self, question: _Question) -> None:
        if self._is_closed:
            question.done.set()
            return
        dialog = question.make(_parent())
        question.dialog, self._open = dialog, question

        def over(result: int) -> None:
            if result == QDialog.DialogCode.Accepted:
                question.answer = question.read(dialog)
            else:
                self._declined.add(question.name)
            # the waiting thread must not hold the last reference to the dialog: it would be destroyed there
            self._open = question.dialog = None
            question.done.set()

        dialog.finished.connect(over)
        dialog.open()

    def _give_up(self, question: _Question) -> None:
        if self._open is question and question.dialog is not None:
            question.dialog.reject()

    def _say(self, sentence: str) -> None:
        box = QMessageBox(_parent())
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setText("It is not remembered.")
        box.setInformativeText(shown(sentence))
        box.open()


def _parent() -> QWidget | None:
    """Return the question's parent: a dialog that waits for it, else the window."""
    return QApplication.activeModalWidget() or QApplication.activeWindow()


_MEANS = (
    "If it differs, someone may be intercepting the connection. Trusted keys are saved to known_hosts; "
    "a changed key is refused."
)


class FingerprintDialog(QDialog):
    """Dialog for a host key: accepting trusts it; Enter and Esc give the safe answer."""

    def __init__(
        self, node: str, host: str, key_type: str, fingerprint: str, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Is this the right host?")
        self.host = label(host)
        self.key_type = label(key_type)
        self.fingerprint = label(fingerprint, wrap=True)
        kind = key_type.removeprefix("ssh-").partition("-")[0]  # for ecdsa the curve follows
        self.command = label(f"ssh-keygen -lf /etc/ssh/ssh_host_{kind}_key.pub", wrap=True)
        named = {
            "Host": self.host,
            "Key type": self.key_type,
            "SHA-256": self.fingerprint,
            "Command": self.command,
        }
        for name, value in named.items():
            value.setFont(font(Type.MONO))
            value.setAccessibleName(f"{name}: {value.text()}")
            value.setTextInteractionFlags(
                Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
            )
        facts = QFormLayout()
        facts.setSpacing(GRID)
        for name, value in (("Host", self.host), ("Key type", self.key_type), ("SHA-256", self.fingerprint)):
            facts.addRow(label(name, role="secondary"), value)
        buttons = QDialogButtonBox()
        self.trust_button = buttons.addButton("&Trust", QDialogButtonBox.ButtonRole.AcceptRole)
        self.refuse_button = buttons.addButton("&Cancel", QDialogButtonBox.ButtonRole.RejectRole)
        self.trust_button.setToolTip("Save the key and connect")
        self.refuse_button.setToolTip("Do not connect")
        self.trust_button.setAutoDefault(False)
        self.refuse_button.setDefault(True)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(2 * GRID)
        column.addWidget(label(f"The host key of {node} is not known yet", Type.HEADING, wrap=True))
        column.addLayout(facts)
        compare = QVBoxLayout()
        compare.setSpacing(GRID // 2)
        compare.addWidget(label("Compare it with the output of this command on the host:", wrap=True))
        compare.addWidget(self.command)
        column.addLayout(compare)
        column.addWidget(label(_MEANS, role="secondary", wrap=True))
        column.addWidget(buttons)
        self.setMinimumWidth(64 * GRID)
        self.refuse_button.setFocus()


_KEPT = "It is kept in memory until this window is closed, and never written to disk."
_REMEMBERED = "It is kept in memory and in the system's keyring."


class SecretDialog(QDialog):
    """Dialog for a hidden secret. If cancelled, the connection continues without it."""

    def __init__(
        self, title: str, what: str, *, again: bool, can_remember: bool, parent: QWidget | None = None
    ) -> None:
        """Args:
        title: kind of the secret.
        what: its owner.
        again: whether the last answer was wrong.
        can_remember: whether a keyring is available to store it.
        parent: Qt parent.
        """
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(title)
        self.line = QLineEdit()
        self.line.setEchoMode(QLineEdit.EchoMode.Password)
        self.line.setAccessibleName(title)
        self.line.setAccessibleDescription(what)
        self.line.setInputMethodHints(
            Qt.InputMethodHint.ImhSensitiveData | Qt.InputMethodHint.ImhNoPredictiveText
        )
        self.line.textChanged.connect(self._typed)
        self.remember = QCheckBox("&Remember in the keyring")
        self.remember.setToolTip(
            "Saved in the system's keyring; `torchdeck nodes trust --keyring forget` removes it"
        )
        self.remember.setVisible(can_remember)
        self.buttons = QDialogButtonBox(
            QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel
        )
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(GRID)
        column.addWidget(label(title, Type.HEADING, wrap=True))
        column.addWidget(label(what, role="secondary", wrap=True))
        if again:
            column.addWidget(label("✕ That was wrong. Try again.", role="error", wrap=True))
        column.addWidget(self.line)
        column.addWidget(self.remember)
        self.kept = label(_KEPT, Type.SMALL, "secondary", wrap=True)
        self.remember.toggled.connect(lambda on: self.kept.setText(_REMEMBERED if on else _KEPT))
        column.addWidget(self.kept)
        column.addWidget(self.buttons)
        self.setMinimumWidth(52 * GRID)
        self._typed("")

    @property
    def secret(self) -> str:
        """Return the input."""
        return self.line.text()

    def _typed(self, text: str) -> None:
        self.buttons.button(QDialogButtonBox.StandardButton.Ok).setEnabled(bool(text))
