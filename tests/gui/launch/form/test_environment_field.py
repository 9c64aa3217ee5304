"""The field of a run's Python offers what this machine and the nodes have."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot
from shiboken6 import delete

from support.gui.form_user import User
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.inventory.file import inventory_path, read_inventory
from torchdeck.use_cases.environments import FoundEnvironment, FoundEnvironments
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.form.environment_field import EnvironmentSearch, InterpreterControl
from torchdeck_app.theme.theme import Theme

SCRIPT = '[run]\nscript = "train.py"\n'


@pytest.fixture
def user(
    qtbot: QtBot, theme: Theme, operations: Operations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[User]:
    """The form of a script, in a home with one virtual environment."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    environment(tmp_path / "envs" / "R&D", "3.12.3", "torch-2.10.0")
    made = User(
        qtbot,
        theme,
        tmp_path,
        search=lambda document: EnvironmentSearch(document, operations, lambda: Connector(tmp_path)),
    )
    made.open(SCRIPT)
    yield made
    made.document.close(10.0)
    delete(made.form)


def environment(folder: Path, version: str, *packages: str) -> None:
    """Write the files by which a virtual environment is known."""
    site = folder / "lib" / f"python{version.rpartition('.')[0]}" / "site-packages"
    for package in packages:
        (site / f"{package}.dist-info").mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "python").touch()
    (folder / "pyvenv.cfg").write_text(f"version = {version}\n")


def run_table(user: User) -> dict[str, object]:
    table = tomllib.loads(user.document.text)["run"]
    assert isinstance(table, dict)
    return table


def choose(user: User, control: InterpreterControl, text: str) -> None:
    control.fill_menu()
    next(action for action in control.menu.actions() if text in action.text()).trigger()
    user.settle()


def test_environments_are_found_and_chosen(user: User, tmp_path: Path) -> None:
    """With their versions; the default is Torchdeck's own, and typing stays possible."""
    control = user.within("run.interpreter", InterpreterControl)
    assert user.search is not None
    control.fill_menu()
    assert control.menu.actions() == []
    with user.bot.waitSignal(user.search.changed, timeout=60_000):
        user.search.start()
        control.fill_menu()
        assert "Searching" in control.menu.actions()[-1].text()
    control.fill_menu()
    texts = [action.text() for action in control.menu.actions()]
    assert "~/envs/R&&D\tPython 3.12.3, torch 2.10.0" in texts
    assert not any("uv" in text for text in texts)
    choose(user, control, "R&&D")
    python = str(tmp_path / "envs" / "R&D" / "bin" / "python")
    assert run_table(user)["interpreter"] == python
    control.fill_menu()
    assert [action.text() for action in control.menu.actions() if action.isChecked()] == [
        "~/envs/R&&D\tPython 3.12.3, torch 2.10.0"
    ]
    choose(user, control, "Torchdeck's own Python")
    assert "interpreter" not in run_table(user)
    line = user.line("run.interpreter")
    user.type(line, "/opt/python")
    assert run_table(user)["interpreter"] == "/opt/python"


def test_another_python_of_a_node_is_chosen_after_a_question(user: User, tmp_path: Path) -> None:
    """It is saved in the node inventory, in place of an environment there."""
    inventory = inventory_path(tmp_path)
    inventory.write_text('version = 1\n[nodes.gpu1]\naddress = "g"\nvenv = "/old"\n')
    control = user.within("run.interpreter", InterpreterControl)
    assert user.search is not None
    there = FoundEnvironment("gpu1", "/opt/torch/bin/python", "3.11.2", "2.10.0", is_used=False)
    user.search.found = FoundEnvironments((), (there,), "", ())
    choose(user, control, "/opt/torch")
    assert control.dialog is not None
    assert "venv" in inventory.read_text()
    with user.bot.waitSignals([user.search.node_changed, user.search.changed], timeout=60_000):
        control.dialog.buttons()[0].click()
    node = read_inventory(inventory).nodes["gpu1"]
    assert (node.python, node.venv) == ("/opt/torch/bin/python", None)


def test_uv_is_offered_and_nodes_are_shown(user: User) -> None:
    """uv where there is a file for it; what nodes use comes from the node inventory."""
    control = user.within("run.interpreter", InterpreterControl)
    assert user.search is not None
    here = FoundEnvironment("", sys.executable, "3.12.3", "2.10.0", is_used=True)
    there = FoundEnvironment("gpu1", "/opt/torch/bin/python", "3.11.2", None, is_used=True)
    user.search.found = FoundEnvironments((here,), (there,), "uv.lock", ("node gpu2: it does not answer",))
    choose(user, control, "uv: from uv.lock")
    assert run_table(user)["environment"] == "uv"
    control.fill_menu()
    actions = {action.text(): action for action in control.menu.actions()}
    assert actions["uv: from uv.lock\tmade on each node"].isChecked()
    on_node = actions["/opt/torch\tPython 3.11.2, no torch"]
    assert on_node.isChecked()
    assert "node inventory" in on_node.toolTip()
    assert not actions["node gpu2: it does not answer"].isEnabled()
    choose(user, control, "uv: from uv.lock")
    assert "environment" not in run_table(user)
