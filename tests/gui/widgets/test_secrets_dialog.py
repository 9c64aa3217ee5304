"""Values of secrets are typed into password fields."""

from __future__ import annotations

from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from torchdeck.use_cases.start import MissingSecrets
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.secrets_dialog import SecretsDialog


def test_all_values_are_needed_and_none_is_shown(qtbot: QtBot, theme: Theme) -> None:
    """The keyring is offered where there is one, and used only if it is ticked."""
    said: list[object] = []
    missing = MissingSecrets(("HF_TOKEN", "WANDB_API_KEY"), can_keep=True)
    dialog = SecretsDialog(missing, lambda *entered: said.append(entered), lambda: said.append("declined"))
    qtbot.addWidget(dialog)
    dialog.open()
    assert all(line.echoMode() is QLineEdit.EchoMode.Password for line in dialog.lines.values())
    assert dialog.remember.isVisible()
    assert not dialog.remember.isChecked()
    qtbot.keyClicks(dialog.lines["HF_TOKEN"], "one")
    assert not dialog.launch_button.isEnabled()
    qtbot.keyClicks(dialog.lines["WANDB_API_KEY"], "two")
    dialog.launch_button.click()
    assert said == [({"HF_TOKEN": "one", "WANDB_API_KEY": "two"}, False)]


def test_without_a_keyring_none_is_offered(qtbot: QtBot, theme: Theme) -> None:
    said: list[object] = []
    dialog = SecretsDialog(
        MissingSecrets(("A",), can_keep=False),
        lambda *entered: said.append(entered),
        lambda: said.append("no"),
    )
    qtbot.addWidget(dialog)
    dialog.open()
    assert not dialog.remember.isVisible()
    dialog.reject()
    assert said == ["no"]
