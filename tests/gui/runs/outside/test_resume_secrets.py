"""Resume asks for secrets that no variable has, in a password field."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from gui.runs.conftest import Opened, page_of
from support.values.run_homes import add_failed_run
from torchdeck.contract.refusal import Refusal
from torchdeck.use_cases.resume import SecretsWantedError
from torchdeck.use_cases.start import MissingSecrets
from torchdeck_app.runs import run_commands
from torchdeck_app.widgets.secrets_dialog import SecretsDialog


def test_values_are_entered_once_for_all_resumes(
    qtbot: QtBot, opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Mapping[str, str]] = []
    missing = MissingSecrets(("HF_TOKEN",), can_keep=False)

    def resume(*called: object) -> None:
        secrets = called[-1]
        assert isinstance(secrets, Mapping)
        given.append(secrets)
        if not secrets:
            raise SecretsWantedError(Refusal("HF_TOKEN has no value"), missing)

    monkeypatch.setattr(run_commands, "resume", resume)
    layout = add_failed_run(tmp_path, 1)
    place = opened(tmp_path)
    page = page_of(qtbot, place, 1)
    place.commands.resume(layout)
    qtbot.waitUntil(lambda: len(place.findChildren(SecretsDialog)) == 1)
    (dialog,) = place.findChildren(SecretsDialog)
    assert dialog.launch_button.text() == "&Resume"
    assert page.problem.text() == ""
    qtbot.keyClicks(dialog.lines["HF_TOKEN"], "one")
    dialog.launch_button.click()
    qtbot.waitUntil(lambda: given == [{}, {"HF_TOKEN": "one"}])
    place.commands.resume(layout)
    qtbot.waitUntil(lambda: len(given) == 3)
    assert given[2] == {"HF_TOKEN": "one"}
