"""What a damaged window.json says: each place starts over with what it cannot use."""

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from support.gui.whole_window import close, opened
from support.values.run_homes import add_run, run_id

HUGE = 10**18
WRONG: tuple[Any, ...] = (
    HUGE,
    -HUGE,
    "\u202e<b>x",
    None,
    [],
    [HUGE, HUGE],
    [[], {}],
    {"x": {"y": [HUGE]}, "": None},
)


def with_all(value: Any, wrong: Any) -> Any:
    """`value`, in which `wrong` stands for all but objects; of a list of numbers, for each."""
    if isinstance(value, dict):
        return {key: with_all(item, wrong) for key, item in value.items()}
    if isinstance(value, list) and isinstance(wrong, int):
        return [wrong for _ in value]
    return wrong


def test_places_take_up_whatever_a_session_says(
    tmp_path: Path, qapp: QApplication, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers that Qt has no room for, and values of other kinds."""
    monkeypatch.setenv("HOME", str(tmp_path))
    add_run(tmp_path / "home", 1)
    made = opened(tmp_path / "home", qapp, qtbot)
    try:
        made.connections.open_run(run_id(1))
        runs: Any = made.window.stack.places["Runs"]
        qtbot.waitUntil(lambda: runs.page is not None, timeout=30_000)
        for name, state in made.window.session(()).places.items():
            for wrong in WRONG:
                made.window.stack.places[name].restore_state(with_all(state, wrong))
        launch: Any = made.window.stack.places["Launch"]
        launch.current.editor.restore_state({"cursor": HUGE, "scroll": HUGE})
        runs.page.restore_state({"splitter": [HUGE, HUGE], "tab": HUGE})
    finally:
        close(made)
