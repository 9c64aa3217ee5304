"""Whatever stands in a run file, the form shows it, says what is wrong, and lets it be mended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot
from shiboken6 import delete

from torchdeck.config.keys import all_keys
from torchdeck.config.toml.document import KeyPath
from torchdeck.config.toml.edit import EditError, set_value
from torchdeck_app.launch.document.checked_text import CheckRequest, check_document
from torchdeck_app.launch.document.run_document import RunDocument
from torchdeck_app.launch.form.form import ConfigForm
from torchdeck_app.launch.form.form_model import FormModel
from torchdeck_app.launch.form.form_state import FormState
from torchdeck_app.theme.theme import Theme

WRONG: list[Any] = [3, -1.5, "x", "two\nlines", True, [1, "a"], [], {"a": 1}, [{"a": 1}], [[1]], float("nan")]
DATE = "run = 2026-01-01\nname = 2026-01-01T00:00:00Z\n[training]\nlr = 12:00:00\nbetas = [2026-01-01]\n"
TABLES = [
    "run = 3\n", "training = [1]\n", "[[training]]\nlr = 1\n", "[[run]]\n", "[cluster]\nnodes = 3\n",
    "[cluster.nodes]\nname = 'a'\n", "cluster = []\n", "[distributed]\nfsdp = 'x'\n",
    "model = 5\n[run]\nrecipe='a.py'\n",
    "[run.env.deep]\na = 1\n", "[run]\nrecipe = ['bdh']\n", "[name]\nx = 1\n", "[extends]\nx = 1\n", DATE,
]  # fmt: skip

GOOD = """\
[run]
recipe = 'byte-gpt'
[training]
steps = 1
[[cluster.nodes]]
name = 'a'
gpus = 1
gpu = 'H100'
"""


def state(text: str) -> FormState:
    return FormModel(check_document(CheckRequest(0, text, None, Path("/nowhere")))).state()


def problem_count(shown: FormState) -> int:
    return len(shown.problems) + sum(group.problem_count for group in shown.groups)


@pytest.mark.parametrize("turn", range(len(WRONG)))
def test_any_value_of_any_key_is_shown(turn: int) -> None:
    """With as many problems as the check found, none of them lost; values take turns with keys."""
    recipe = ("byte-gpt", "bdh", "digits")[turn % 3]
    keys = [key for key in all_keys(recipe).values() if key.section is None and len(key.path) < 4]
    for index, key in enumerate(keys):
        if key.path[:2] != ("cluster", "nodes") and index % 3 == turn % 3:
            value = WRONG[(index + turn) % len(WRONG)]
            text = set_value(f"[run]\nrecipe = '{recipe}'\n[training]\nsteps = 1\n", key.path, value)
            checked = check_document(CheckRequest(0, text, None, Path("/nowhere")))
            assert problem_count(FormModel(checked).state()) >= len(checked.problems), key.name


@pytest.mark.parametrize("text", TABLES)
def test_tables_that_are_none_are_shown(text: str) -> None:
    """A value in place of a table, a table in place of a value."""
    assert problem_count(state(text)) >= 1


@pytest.mark.parametrize("value", [{"a": 1}, float("nan")], ids=repr)
def test_a_form_full_of_wrong_values(qtbot: QtBot, theme: Theme, tmp_path: Path, value: Any) -> None:
    """Every field is built, and then shows right values again."""
    text = GOOD
    for key in all_keys("byte-gpt").values():
        path: KeyPath = (
            (*key.path[:2], 0, *key.path[2:]) if key.path[:2] == ("cluster", "nodes") else key.path
        )
        if key.section is None and key.path not in (("run", "recipe"), ("model",), ("data",), ("extends",)):
            try:
                text = set_value(text, path, value)
            except EditError:
                assert isinstance(value, list)  # a list that begins like the table that stands there
    document = RunDocument(tmp_path)
    form = ConfigForm(theme, document)
    form.restore_state({"open": [name[0] for name in all_keys() if len(name) == 1]})
    for shown in (text, GOOD):
        document.load(shown, None)
        qtbot.waitUntil(lambda: document.newest is not None, timeout=10_000)
        form.show()
    assert form.groups["basic"].rows[("training", "steps")].findChildren(QLineEdit)[0].text() == "1"
    assert not any(row.messages.texts() for group in form.groups.values() for row in group.rows.values())
    document.close(10.0)
    delete(form)
