"""Free GPUs are taken from a menu of the field of a run's GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot
from shiboken6 import delete

from support.gui.form_user import User
from support.values.run_files import MINIMAL
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.free_gpus import FreeGpu, FreeNode
from torchdeck.use_cases.nodes.free_gpus import FoundGpus
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.form import gpu_field
from torchdeck_app.launch.form.gpu_field import FreeGpuSearch, GpuControl
from torchdeck_app.theme.theme import Theme


def test_four_free_gpus_fill_nodes_and_devices_in_one_step(
    qtbot: QtBot, theme: Theme, operations: Operations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number of processes that was set for other GPUs is reset; undo takes all of it back."""
    nodes = tuple(FreeNode(name, tuple(FreeGpu(i, "H100") for i in (2, 3))) for name in ("a", "b"))
    found = FoundGpus(nodes, ("c: no route",), 0.0)
    monkeypatch.setattr(gpu_field, "find_free_gpus", lambda *_: found)
    search = FreeGpuSearch(operations, lambda: Connector(tmp_path))
    user = User(qtbot, theme, tmp_path, free_gpus=search)
    text = MINIMAL + "[distributed]\nnproc = 8\n"
    user.open(text)
    control = user.within("distributed.devices", GpuControl)
    with qtbot.waitSignal(search.changed, timeout=10_000):
        search.start()
        control.fill_menu()
        assert "Looking for free GPUs" in control.menu.actions()[-1].text()
    control.fill_menu()
    actions = {action.text().partition("\t")[0]: action for action in control.menu.actions()}
    assert list(actions) == [
        "H100",
        "Take 1 free H100: a",
        "Take 2 free H100: a",
        "Take 4 free H100: 2 each on a, b",
        "c: no route",
    ]
    actions["Take 4 free H100: 2 each on a, b"].trigger()
    user.settle()
    assert user.table["distributed"] == {"nodes": ["a", "b"], "devices": [2, 3]}
    user.document.undo_stack.undo()
    assert user.document.text == text
    user.document.close(10.0)
    delete(user.form)
