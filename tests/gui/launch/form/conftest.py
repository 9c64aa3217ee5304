"""Who sits before the form."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot
from shiboken6 import delete

from support.gui.form_user import User
from support.values.run_files import MINIMAL
from torchdeck_app.theme.theme import Theme


@pytest.fixture
def user(qtbot: QtBot, theme: Theme, tmp_path: Path) -> Iterator[User]:
    made = User(qtbot, theme, tmp_path)
    made.open(MINIMAL)
    yield made
    made.document.close(10.0)
    delete(made.form)  # at once: the next test's theme would restyle all of it
