"""The Nodes place, as a person sees it."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QLabel, QPushButton
from pytestqt.qtbot import QtBot

from gui.nodes.conftest import SLOW
from torchdeck.contract.inventory import Device, InterpreterFacts
from torchdeck.nodes.activity import Activity, DeviceActivity, Owner, ProcessActivity
from torchdeck.nodes.interpreter import installed_version
from torchdeck.nodes.this_machine import SoftwareFacts, probe_software
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.nodes.machine_card import MachineCard
from torchdeck_app.nodes.node_dialog import NodeDialog
from torchdeck_app.nodes.nodes_page import NODES, NodesPage
from torchdeck_app.theme.theme import Theme


def activity(*devices: DeviceActivity, processes: tuple[ProcessActivity, ...] = ()) -> Activity:
    return Activity(
        time=0.0,
        host="workstation",
        system="Linux 6.1, x86_64",
        cores=16,
        cpu=42.0,
        load=(1.0, 2.0, 3.0),
        memory_total=64 << 30,
        memory_used=16 << 30,
        disk_free=1 << 40,
        disk_total=2 << 40,
        received=2048.0,
        sent=0.0,
        devices=devices,
        processes=processes,
    )


@pytest.fixture
def card(theme: Theme, qtbot: QtBot) -> MachineCard:
    made = MachineCard(theme)
    qtbot.addWidget(made)
    made.resize(1000, 700)
    made.show()
    return made


@pytest.fixture
def place(theme: Theme, operations: Operations, tmp_path: Path, qtbot: QtBot) -> Iterator[NodesPage]:
    made = NodesPage(theme, operations, tmp_path)
    qtbot.addWidget(made)
    made.resize(1200, 700)
    made.show()
    yield made
    made.closing()


def texts(card: MachineCard) -> list[str]:
    return [text.text() for text in card.findChildren(QLabel) if text.isVisible()]


def names(card: MachineCard) -> set[str]:
    return {text.accessibleName() for text in card.findChildren(QLabel) if text.isVisible()}


def test_the_machine_is_live_while_it_is_looked_at(place: NodesPage, qtbot: QtBot) -> None:
    place.entered()
    qtbot.waitUntil(lambda: place.card.processes.rowCount() > 0, timeout=SLOW)
    facts = probe_software()
    said = {f"torch: {installed_version('torch')}", f"Kernel: {facts.kernel}, {facts.machine}"}
    qtbot.waitUntil(lambda: said <= names(place.card), timeout=SLOW)
    place.left()
    assert not place._poller.is_running


def test_what_the_machine_is_and_does_is_said(card: MachineCard) -> None:
    card.show_activity(activity())
    said = texts(card)
    assert "workstation" in said
    assert any(text.startswith("No NVIDIA GPU") for text in said)
    assert card._charts["CPU"].accessibleDescription() == "42 % of 16 cores"
    assert card._charts["Memory"].accessibleDescription() == "16.0 GiB of 64.0 GiB"


def test_a_device_shows_whose_it_is_and_leads_to_the_run(card: MachineCard, qtbot: QtBot) -> None:
    device = Device(0, "GPU-a", "NVIDIA H100 80GB HBM3", 80 << 30)
    card.show_activity(
        activity(DeviceActivity(device, 93.0, 40 << 30, 61.0, 612.0, Owner("the-run-id", "R&D")))
    )
    qtbot.waitUntil(lambda: "40.0 GiB of 80.0 GiB" in texts(card))
    said = texts(card)
    assert "61 °C  612 W" in said
    assert not any(text.startswith("No NVIDIA GPU") for text in said)
    owner = next(button for button in card.findChildren(QPushButton) if button.text() == "R&&D")
    assert owner.accessibleName() == "Open the run R&D"
    assert owner.toolTip() == "<qt>Open the run R&amp;D, the-run-id</qt>"
    with qtbot.waitSignal(card.run_asked) as asked:
        qtbot.mouseClick(owner, Qt.MouseButton.LeftButton)
    assert asked.args == ["the-run-id"]


def test_a_process_of_a_run_leads_to_the_run(card: MachineCard, qtbot: QtBot) -> None:
    processes = (
        ProcessActivity(7, "python", "me", 180.0, 3 << 30, "the-run-id"),
        ProcessActivity(8, "firefox", "me", 12.0, 1 << 30),
    )
    card.show_activity(activity(processes=processes))
    model = card.processes
    assert [model.index(0, column).data() for column in range(6)] == [
        "python",
        "7",
        "me",
        "180 %",
        "3.0 GiB",
        "the-run-id",
    ]
    asked: list[str] = []
    card.run_asked.connect(asked.append)
    card.table.activated.emit(model.index(1, 0))
    card.table.activated.emit(model.index(0, 0))
    assert asked == ["the-run-id"]


def test_what_is_selected_follows_its_process(card: MachineCard) -> None:
    def process(pid: int, cpu: float) -> ProcessActivity:
        return ProcessActivity(pid, f"p{pid}", "me", cpu, 1 << 30)

    def selected() -> list[str]:
        return [str(index.data()) for index in card.table.selectionModel().selectedRows()]

    tester = QAbstractItemModelTester(card.processes, QAbstractItemModelTester.FailureReportingMode.Fatal)
    card.show_activity(activity(processes=(process(1, 9.0), process(2, 5.0), process(3, 1.0))))
    card.table.selectRow(1)
    card.show_activity(activity(processes=(process(4, 80.0), process(3, 7.0), process(2, 5.0))))
    assert [card.processes.process(row).pid for row in range(3)] == [4, 3, 2]
    assert selected() == ["p2"]
    card.show_activity(activity(processes=(process(2, 50.0),)))
    assert selected() == ["p2"]
    card.show_activity(activity(processes=(process(3, 7.0),)))
    assert selected() == []
    assert tester.model() is card.processes


def test_each_core_has_its_bar(card: MachineCard, qtbot: QtBot) -> None:
    card.show_activity(dataclasses.replace(activity(), core_loads=(10.0, 97.4, 0.0, 55.0)))
    card.cores.point_at(0)
    qtbot.keyClick(card.cores, Qt.Key.Key_Right)
    assert card.cores.accessibleDescription() == "core 1: 97 %"
    card.show_activity(activity())
    assert card.cores.marks() == 0
    card.grab()


def test_without_nodes_it_is_said_how_to_add_some(place: NodesPage, qtbot: QtBot) -> None:
    place.tabs.setCurrentIndex(NODES)
    said = "\n".join(text.text() for text in place.findChildren(QLabel) if text.isVisible())
    assert "No nodes yet" in said
    first, second = place.board.empty.button, place.board.import_button
    below = (
        second.mapTo(place, second.rect().topLeft()).y() - first.mapTo(place, first.rect().bottomLeft()).y()
    )
    assert 0 < below < 4 * 8, "the second way stands right below the first"
    qtbot.mouseClick(place.board.empty.button, Qt.MouseButton.LeftButton)
    dialog = place.findChild(NodeDialog)
    assert dialog is not None
    assert dialog.isVisible()
    dialog.reject()


def test_the_systems_software_is_said(card: MachineCard) -> None:
    card.show_software(
        SoftwareFacts("Debian GNU/Linux 12 (bookworm)", "6.1.0-18-amd64", "x86_64", "550.54.15")
    )
    card.show_interpreter(InterpreterFacts("/usr/bin/python3", "3.12.1", "2.13.0+cu130"))
    assert {
        "System: Debian GNU/Linux 12 (bookworm)",
        "Kernel: 6.1.0-18-amd64, x86_64",
        "NVIDIA driver: 550.54.15",
        "Python: 3.12.1",
        "torch: 2.13.0+cu130",
    } <= names(card)
    card.show_software(SoftwareFacts("Debian GNU/Linux 12 (bookworm)", "6.1.0-18-amd64", "x86_64"))
    assert "NVIDIA driver: none" in names(card)


def test_python_without_torch_is_said(card: MachineCard) -> None:
    card.show_interpreter(InterpreterFacts("/usr/bin/python3", "3.12.1"))
    assert any("no torch" in text for text in texts(card))
    card.show_interpreter(InterpreterFacts("/usr/bin/python9", error="there is no such file"))
    assert any("there is no such file" in text for text in texts(card))
