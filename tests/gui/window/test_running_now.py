"""The line of the status bar, by values."""

import dataclasses
import math

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QToolButton
from pytestqt.qtbot import QtBot

from support.values.run_entries import entry, live_view, progress, run_id
from torchdeck.runs.run_list import RunEntry, RunsSeen
from torchdeck.runs.run_state import RunState
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import SteadyLine
from torchdeck_app.window.running_now import running_now
from torchdeck_app.window.status_bar import StatusBar


def live(number: int = 1, state: RunState = RunState.RUNNING, **fields: object) -> RunEntry:
    view = dataclasses.replace(live_view(run_id(number)), state=state, name=f"run{number}", devices=())
    return entry(number, dataclasses.replace(view, **fields), progress=progress(1240, loss=2.3147, eta=120.0))  # type: ignore[arg-type]


def test_nothing_is_running() -> None:
    assert running_now([]).text == "Nothing is running"
    assert running_now([entry(1)]).run_id == ""


def test_one_run_with_step_loss_time_and_where() -> None:
    now = running_now([live()])
    assert now.text == "run1  ·  step 1,240 / 2,000  ·  loss 2.3147  ·  2 min 0 s left  ·  CPU"
    assert now.look is not None
    assert now.look.word == "running"


@pytest.mark.parametrize(("odd", "said"), [(math.nan, "NaN"), (math.inf, "∞")])
def test_figures_that_are_no_numbers_do_no_harm(odd: float, said: str) -> None:
    told = dataclasses.replace(live(), progress=progress(3, None, loss=odd, eta=odd))
    assert running_now([told]).text == f"run1  ·  step 3  ·  loss {said}  ·  CPU"


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        (("GPU-0a1b-2c", "GPU-3d4e-5f"), "GPU-0a1b, GPU-3d4e"),
        (tuple(f"GPU-{n}-x" for n in range(8)), "GPU-0, GPU-1, GPU-2 and 5 more devices"),
    ],
)
def test_devices_are_named_shortly(devices: tuple[str, ...], said: str) -> None:
    now = running_now([live(devices=devices)])
    assert now.text.endswith(said)


def test_of_several_the_first_that_trains_is_named_and_the_others_counted() -> None:
    entries = [live(3, RunState.QUEUED), live(2), live(1), entry(4)]
    now = running_now(entries)
    assert now.text.startswith("run2  ·  step")
    assert now.text.endswith("and 2 more")
    assert now.run_id == run_id(2)
    assert "run3  ·  queued" in now.more


def test_the_bar_opens_the_run_by_mouse_and_by_keyboard(
    theme: Theme, operations: Operations, qtbot: QtBot
) -> None:
    bar = StatusBar(theme, operations)
    qtbot.addWidget(bar)
    bar.resize(900, 30)
    bar.show()
    bar.show_runs(RunsSeen((live(),)))
    with qtbot.waitSignal(bar.run_chosen) as chosen:
        qtbot.mouseClick(bar.findChildren(SteadyLine)[0], Qt.MouseButton.LeftButton)
    assert chosen.args == [run_id(1)]
    with qtbot.waitSignal(bar.run_chosen):
        qtbot.keyClick(bar.findChildren(QToolButton)[0], Qt.Key.Key_Space)


def test_trouble_with_the_runs_is_said(theme: Theme, operations: Operations, qtbot: QtBot) -> None:
    bar = StatusBar(theme, operations)
    qtbot.addWidget(bar)
    line = bar.findChildren(SteadyLine)[0]
    bar.show_trouble("Permission <b>denied</b>")
    assert line.text() == "Runs cannot be read: Permission <b>denied</b>"
    assert "&lt;b&gt;" in line.toolTip()
    bar.show_waiting(0.0)
    theme.set_mode("dark")
    assert line.text().startswith("Runs cannot be read")
    bar.show_runs(RunsSeen(()))
    bar.show_waiting(3.0)
    assert "waiting for the folder of runs for 3 s" in line.text()


def test_what_nobody_follows_is_said_to_be_unknown_and_comes_last() -> None:
    alone = live(1, followed_until=100.0)
    now = running_now([alone])
    assert now.look is not None
    assert now.look.word == "unknown"
    assert now.text == "run1  ·  unknown  ·  step 1,240 / 2,000  ·  loss 2.3147  ·  CPU"
    assert running_now([alone, live(2)]).run_id == run_id(2)
