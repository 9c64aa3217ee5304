"""The grid of all GPUs, the page of one, and ending a process on it, as a person uses them."""

import os
import sys
import time
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from fakes.nvidia_smi import fake_nvidia_smi, machine_with_gpus
from gui.nodes.conftest import SLOW
from support.values.gpus import RUN, free_gpu, gpu_now, node_report, process_here, process_of
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.nodes.gpus.gpu_now import GpuNow, RunHold
from torchdeck.nodes.gpus.gpu_words import LOSS
from torchdeck.nodes.gpus.history import GpuHistories
from torchdeck.nodes.probe.facts import ProcessEnd
from torchdeck.nodes.probe.monitoring import NodeState
from torchdeck.use_cases.nodes.gpus import EndRequest
from torchdeck_app.bridge.logins import make_logins
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.nodes.gpus import process_ending
from torchdeck_app.nodes.gpus.gpu_grid import MANY
from torchdeck_app.nodes.gpus.gpu_looks import look_of
from torchdeck_app.nodes.gpus.gpu_model import GpuModel
from torchdeck_app.nodes.gpus.gpus_view import GpusView
from torchdeck_app.nodes.gpus.process_ending import ProcessEnding
from torchdeck_app.nodes.nodes_page import NodesPage
from torchdeck_app.theme.theme import Theme

KEY = ("node-a", "GPU-0")


@pytest.fixture
def view(theme: Theme, qtbot: QtBot) -> GpusView:
    made = GpusView(theme, lambda: {RUN: RunHold("fast", time.time() + 7200)})
    qtbot.addWidget(made)
    made.resize(1200, 640)
    made.show()
    made.show_names(["node-a", "node-b"])
    return made


@pytest.mark.parametrize(
    ("gpu", "word", "colour"),
    [
        (free_gpu(), "free", "good"),
        (free_gpu(lease=(RUN, "gpt")), "reserved", "warn"),
        (gpu_now(process_here()), "in use", "busy"),
        (gpu_now(throttle_reasons=0x64), "too hot", "bad"),
        (gpu_now(throttle_reasons=0x64, is_connected=False), "not connected", "quiet"),
    ],
)
def test_each_state_has_a_word_a_sign_and_a_colour(gpu: GpuNow, word: str, colour: str) -> None:
    look = look_of(gpu)
    assert (look.word, look.colour) == (word, colour)
    assert look.sign


def test_the_model_says_who_holds_a_gpu_and_keeps_its_rows() -> None:
    model = GpuModel(GpuHistories())
    QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    gpu = gpu_now(process_here(run_id=RUN, user="ann"), runs={RUN: RunHold("fast")})
    assert model.show_gpus([gpu, free_gpu(index=1)], 0.0)
    said = model.index(0).data(Qt.ItemDataRole.AccessibleTextRole)
    assert said == "node-a · GPU 0: in use, use 93 %, memory 75 %, held by fast of ann"
    assert not model.show_gpus([free_gpu(), free_gpu(index=1)], 1.0)
    assert model.index(0).data(Qt.ItemDataRole.AccessibleTextRole).startswith("node-a · GPU 0: free")
    assert model.show_gpus([free_gpu(node=LOCALHOST)], 2.0)
    assert model.index(0).data() == "This machine · GPU 0"
    assert model.row_of(KEY) is None


def test_the_grid_counts_the_gpus_of_all_nodes_and_leads_to_the_page_of_one(
    view: GpusView, qtbot: QtBot
) -> None:
    view.show_now()
    assert view.grid.currentWidget() is view.grid.empty
    view.show_nodes([node_report(process_here(), leases={"GPU-1": RUN})])
    view.show_now()
    assert view.grid.counts.text() == "2 GPUs: 2 in use; connecting to 1 node …"
    view.grid.view.setCurrentIndex(view.model.index(1))
    qtbot.keyClick(view.grid.view, Qt.Key.Key_Return)
    assert view.currentWidget() is view.page
    assert view.page._holder.text().startswith("Held by fast (me) until ")
    with qtbot.waitSignal(view.run_asked) as asked:
        qtbot.mouseClick(view.page.run_button, Qt.MouseButton.LeftButton)
    assert asked.args == [RUN]
    qtbot.mouseClick(view.page.back, Qt.MouseButton.LeftButton)
    assert view.currentWidget() is view.grid
    view.open_gpu(KEY)
    view.show_names(["node-b"])
    view.show_now()
    assert view.currentWidget() is view.grid, "its node was removed"


def test_many_gpus_have_smaller_tiles_that_are_painted(view: GpusView) -> None:
    wide = []
    for count in (2, MANY):
        view.show_nodes([node_report(process_here(), count=count, heard=float(count), throttle_reasons=0x40)])
        view.show_now()
        wide.append(view.grid.view.gridSize())
        assert view.grid.view.visualRect(view.model.index(0)).width() > 100
        view.grab()
    assert wide[1].width() < wide[0].width()
    assert wide[1].height() < wide[0].height()


def test_histories_share_one_cursor_that_the_keyboard_moves(view: GpusView, qtbot: QtBot) -> None:
    for second in range(5):
        view.show_nodes([node_report(heard=100.0 + second, util=10.0 * second)])
    view.show_now()
    view.open_gpu(KEY)
    use, power = view.page._charts["use"], view.page._charts["power"]
    qtbot.keyClick(use, Qt.Key.Key_Home)
    qtbot.keyClick(use, Qt.Key.Key_Right)
    assert use.accessibleDescription().endswith(": 10 %")
    assert power._head().endswith(": 640 W")
    assert view.page._span.text() == "Last 1 min. Reasons for a lower clock: power limit 100 %"
    view.page.grab()
    view.show_nodes([node_report(heard=105.0, util=70.0)])
    view.show_now()
    assert use.accessibleDescription().endswith(": 10 %"), "the cursor stays at its moment"


def test_only_a_process_that_may_be_ended_has_the_button(view: GpusView, qtbot: QtBot) -> None:
    mine, others = process_here(1, user="me"), process_here(2, endable=False)
    view.show_nodes([node_report(mine, others, process_here(3, run_id=RUN))])
    view.show_now()
    view.open_gpu(KEY)
    page = view.page
    assert not page.end_button.isEnabled()
    page.table.selectRow(1)
    assert not page.end_button.isEnabled()
    assert page._why.text() == "Process 2 belongs to bob. Only bob or root may end it."
    page.table.selectRow(2)
    assert page.end_button.text() == "Stop its run …"
    page.table.selectRow(0)
    with qtbot.waitSignal(view.end_asked) as asked:
        qtbot.mouseClick(page.end_button, Qt.MouseButton.LeftButton)
    assert asked.args is not None
    assert isinstance(asked.args[0], EndRequest)
    assert (asked.args[0].node, asked.args[0].process.pid) == ("node-a", 1)
    view.show_nodes([node_report(others, mine, heard=101.0)])
    view.show_now()
    assert page.table.chosen is not None
    assert page.table.chosen.pid == 1, "the selection follows the process"
    view.show_nodes([node_report(others, mine, heard=101.0, state=NodeState.LOST)])
    view.show_now()
    assert not page.end_button.isEnabled()


def test_processes_that_draw_and_divided_gpus_are_shown_as_such(view: GpusView) -> None:
    view.show_nodes([node_report(process_here(7, graphics=True, command="Xorg"), mig=1.0)])
    view.show_now()
    view.open_gpu(KEY)
    page = view.page
    assert "MIG" in page._machine.text()
    assert "MIG instances" in page._machine.toolTip()
    assert page.table.model().index(0, 2).data() == "graphics"
    page.table.selectRow(0)
    assert not page.end_button.isEnabled()
    assert page._why.text() == "Process 7 draws on a screen of the node. End its session there."


def press(ending: ProcessEnding, text: str) -> None:
    assert ending.dialog is not None
    next(button for button in ending.dialog.findChildren(QAbstractButton) if button.text() == text).click()


def test_the_question_names_the_process_and_what_is_lost(
    view: GpusView, operations: Operations, tmp_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is ended before the answer; a process of a run leads to the run."""
    ended: list[EndRequest] = []

    def end(request: EndRequest, _connector: object) -> ProcessEnd:
        ended.append(request)
        return ProcessEnd(outcome="killed")

    monkeypatch.setattr(process_ending, "end_process", end)
    told: list[str] = []
    runs: list[str] = []
    stopped: list[str] = []
    active = {RUN}
    ending = ProcessEnding(
        view,
        operations,
        make_logins(tmp_path),
        reported=told.append,
        run_asked=runs.append,
        stop_asked=stopped.append,
        may_stop=active.__contains__,
    )
    gpu = gpu_now(process_here(), process_here(5, run_id=RUN))
    assert gpu.processes is not None
    own, of_run = (EndRequest("node-a", process) for process in gpu.processes)
    ending.ask(own)
    assert ending.dialog is not None
    assert ending.dialog.text() == "End process 4321 of bob on node-a?"
    assert ending.dialog.informativeText() == (
        f"Command: python train.py --lr 3e-4\nGPU memory: 12.0 GiB\n\n{LOSS}"
    )
    press(ending, "Cancel")
    assert not ended
    ending.ask(own)
    press(ending, "End process")
    qtbot.waitUntil(lambda: len(told) == 2)
    assert ended == [own]
    assert told[-1] == "Killed process 4321 on node-a: it ignored SIGTERM."
    ending.ask(of_run)
    press(ending, "Open run")
    assert runs == [RUN]
    ending.ask(of_run)
    press(ending, "Stop run")
    assert stopped == [RUN]
    active.clear()
    ending.ask(of_run)
    assert "Stop run" not in [button.text() for button in ending.dialog.findChildren(QAbstractButton)]
    press(ending, "Cancel")
    assert len(ended) == 1


@pytest.mark.processes
def test_the_gpus_of_this_machine_are_in_the_grid(
    theme: Theme, operations: Operations, tmp_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the sample that the card of this machine is made of."""
    fake_nvidia_smi(tmp_path, machine_with_gpus(f"GPU-0, {os.getpid()}, 50000"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("torchdeck.nodes.this_machine._DRIVER_SIGNS", ())
    monkeypatch.setitem(sys.modules, "pynvml", None)
    page = NodesPage(theme, operations, tmp_path / "home")
    qtbot.addWidget(page)
    page.show()
    page.entered()
    try:
        qtbot.waitUntil(lambda: page.gpus.model.rowCount() == 2, timeout=SLOW)
        busy, free = page.gpus.model.gpus
    finally:
        page.closing()
    assert (busy.node, busy.use, free.use) == (LOCALHOST, 93.0, 0.0)
    assert process_of(busy).process == ProcessIdentity.of(os.getpid())
