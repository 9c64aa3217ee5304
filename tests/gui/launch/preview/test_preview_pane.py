"""The preview's pane: answers without a click, messages with a button, states."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from support.training.held import held_in
from support.values.previews import machines, memory, preview, script_preview, with_memory
from torchdeck.config.problems import Problem
from torchdeck.contract.refusal import Refusal
from torchdeck.plan.communication import Traffic
from torchdeck.plan.known import Known
from torchdeck.plan.preview.data_share import DataPreview
from torchdeck.trust.trusted_entry import Held
from torchdeck.use_cases.previewer import UNTRACED, Previewer
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.preview.headline import answers
from torchdeck_app.launch.preview.placement.grid_layout import Spot
from torchdeck_app.launch.preview.preview_pane import PreviewPane
from torchdeck_app.launch.preview.preview_service import PreviewService
from torchdeck_app.launch.preview.preview_state import PreviewState
from torchdeck_app.launch.preview.rank_grid_model import board_model
from torchdeck_app.theme.theme import Theme

WRAPPED = Qt.TextFlag.TextWordWrap.value
LEFT = Qt.MouseButton.LeftButton


class Asked(PreviewService):
    """Notes what it is asked for."""

    def __init__(self, operations: Operations, home: Path) -> None:
        super().__init__(operations, home, previewer=Previewer(home))
        self.calls: list[object] = []
        self.watched: list[bool] = []

    def watch(self, *, watching: bool) -> None:
        self.watched.append(watching)

    def refresh(self) -> None:
        self.calls.append("refresh")

    def trust(self, folder: Path) -> None:
        self.calls.append(folder)

    def cancel_tracing(self) -> None:
        self.calls.append("cancel")

    def tell(self, state: PreviewState) -> None:
        self._state = state
        self.updated.emit(state)


@pytest.fixture
def service(operations: Operations, tmp_path: Path) -> Iterator[Asked]:
    made = Asked(operations, tmp_path)
    yield made
    made.close()


@pytest.fixture
def pane(qtbot: QtBot, theme: Theme, service: Asked) -> PreviewPane:
    made = PreviewPane(theme, service)
    qtbot.addWidget(made)
    made.resize(760, 640)
    made.show()
    qtbot.waitExposed(made)
    return made


def good() -> PreviewState:
    made = with_memory(
        preview(1, 2, training={"steps": 100, "lr": 0.001, "scaling": "sqrt"}), memory(peak=60)
    )
    return PreviewState(preview=made, plan=made.plan, board=board_model(made, machines(1, 2)), version=1)


def test_it_is_empty_until_there_is_something(pane: PreviewPane, service: Asked) -> None:
    assert not pane.tabs.isVisible()
    assert not pane.strip.isVisible()
    service.tell(good())
    assert pane.tabs.isVisible()
    assert tab_names(pane) == ["Placement", "Data", "Memory", "Parameters", "Commands"]


def tab_names(pane: PreviewPane) -> list[str]:
    tabs = pane.tabs
    return [tabs.tabText(at).replace("&", "") for at in range(tabs.count()) if tabs.isTabVisible(at)]


def test_a_script_has_a_tab_with_its_own_settings(pane: PreviewPane, service: Asked, tmp_path: Path) -> None:
    made = script_preview(
        tmp_path, "--per_device_train_batch_size", "4", "--bf16", "--fp16", "--num_processes", "8"
    )
    state = PreviewState(preview=made, plan=made.plan, board=board_model(made, machines(1, 2)), version=1)
    service.tell(state)
    assert "Program" in tab_names(pane)
    assert pane.strip.arithmetic[0].text() == (
        "By its own arguments: micro-batch 4 × 2 ranks = 8 per step; bf16"
    )
    assert pane.bar.text.text().startswith("⚠ --num_processes is 8, and this plan has 2 ranks")
    pane.tabs.setCurrentWidget(pane.program)
    shown = [text.text() for text in pane.program.findChildren(QLabel) if text.isVisible()]
    assert shown[shown.index("Batch") + 1 : shown.index("Batch") + 3] == [
        "micro-batch 4 × 2 ranks = 8 per step",
        "--per_device_train_batch_size",
    ]
    assert shown[shown.index("LoRA") + 1] == "unknown"
    assert [text for text in shown if text.startswith("⚠")] == [
        (
            "⚠ --num_processes is 8, and this plan has 2 ranks. "
            "Make them equal; torchrun's number of ranks is the plan's."
        ),
        "⚠ Both bf16 (--bf16) and fp16 (--fp16) are on. Keep one of them.",
    ]
    service.tell(good())
    assert "Program" not in tab_names(pane)


def test_it_answers_without_a_click(pane: PreviewPane, service: Asked) -> None:
    service.tell(good())
    fits, balanced, _ = pane.strip.answers
    assert (fits.value, fits.detail) == ("✓ fits, 75 %", "60.0 GiB of 80.0 GiB per rank")
    assert balanced.value == "✓ even"
    lines = [line.text() for line in pane.strip.arithmetic]
    assert lines[0] == "global batch 8 × 1 × 2 = 16 samples (microbatch × accumulation × ranks)"
    assert lines[1].startswith("lr 0.001 × √2 = 0.00141421")
    assert all(line.isVisible() for line in pane.strip.arithmetic)


def test_a_change_of_the_board_is_asked_for_by_the_pane(
    qtbot: QtBot, pane: PreviewPane, service: Asked
) -> None:
    service.tell(good())
    with qtbot.waitSignal(pane.change_asked) as asked:
        pane.placement.board.toggle_asked.emit(Spot(0, 1))
    assert asked.args == [{"distributed.devices": [0]}]


def test_tabs_follow_when_they_are_looked_at(pane: PreviewPane, service: Asked) -> None:
    service.tell(good())
    assert pane.commands.text.toPlainText() == ""
    pane.tabs.setCurrentWidget(pane.commands)
    assert "--nproc-per-node 2" in pane.commands.text.toPlainText()
    made = preview(1, 1)
    service.tell(PreviewState(preview=made, plan=made.plan, board=board_model(made, machines(1, 1))))
    assert "--nproc-per-node 1" in pane.commands.text.toPlainText()


def test_tracing_can_be_cancelled_and_begun_again(qtbot: QtBot, pane: PreviewPane, service: Asked) -> None:
    service.tell(dataclasses.replace(good(), tracing="tracing the model: building the model"))
    assert pane.bar.text.text() == "◷ tracing the model: building the model …"
    qtbot.mouseClick(pane.bar.button, LEFT)
    service.tell(dataclasses.replace(good(), cancelled=True))
    qtbot.mouseClick(pane.bar.button, LEFT)
    assert service.calls == ["cancel", "refresh"]
    service.tell(good())
    assert not pane.bar.button.isVisible()


def test_trust_is_asked_for_before_code_runs(
    qtbot: QtBot, pane: PreviewPane, service: Asked, tmp_path: Path
) -> None:
    service.tell(dataclasses.replace(good(), held=held_in(tmp_path)))
    assert str(tmp_path) in pane.bar.text.text()
    with qtbot.waitSignal(pane.trust_asked) as asked:
        qtbot.mouseClick(pane.bar.button, LEFT)
    assert asked.args == [held_in(tmp_path)]
    assert service.calls == []


def test_what_cannot_be_trusted_is_said_with_what_would_help(
    qtbot: QtBot, pane: PreviewPane, service: Asked, tmp_path: Path
) -> None:
    """There is nothing to agree to: only to look again, once it was changed."""
    what, fix = f"its folder {tmp_path} cannot be trusted", f"`chmod o-w {tmp_path}`"
    service.tell(dataclasses.replace(good(), held=Held(tmp_path, what, fix, can_be_trusted=False)))
    assert f"{what}: {fix}" in pane.bar.text.text()
    qtbot.mouseClick(pane.bar.button, LEFT)
    assert service.calls == ["refresh"]


def test_all_of_what_is_asked_can_be_read(qtbot: QtBot, pane: PreviewPane, service: Asked) -> None:
    """At any width; what only informs stays on its line."""
    folder = Path("/home/somebody/projects/experiments/2026-11/language-models/with-everything/code")
    service.tell(good())
    line = pane.bar.height()
    service.tell(dataclasses.replace(good(), held=held_in(folder)))
    qtbot.waitUntil(lambda: pane.bar.height() > line, timeout=10_000)
    whole = pane.bar.whole
    assert whole.isVisible()
    assert not pane.bar.text.isVisible()
    assert str(folder) in whole.text()
    assert whole.height() >= whole.heightForWidth(whole.width())
    lines = whole.fontMetrics().boundingRect(whole.rect(), WRAPPED, whole.text())
    assert lines.width() <= whole.width(), "a path is broken where a folder ends"
    service.tell(good())
    assert pane.bar.text.isVisible()
    qtbot.waitUntil(lambda: pane.bar.height() == line, timeout=10_000)


def test_an_old_preview_says_that_it_is_old(pane: PreviewPane, service: Asked) -> None:
    problem = Problem("training.lr", "run.toml", 3, "it is negative", "a number above 0")
    service.tell(dataclasses.replace(good(), stale=True, problems=(problem, problem)))
    assert pane.bar.text.text() == (
        "◷ Showing the last valid preview. training.lr: it is negative, and 1 more"
    )
    assert pane.strip.answers[0].value == "✓ fits, 75 %"
    damaged = Problem("", "run.toml", 3, "this is not valid TOML: there is no value, at column 4", "a value")
    service.tell(dataclasses.replace(good(), stale=True, problems=(damaged,)))
    said = pane.bar.text.text()
    assert said.startswith("◷ Showing the last valid preview. This is not valid TOML: there is no value, ")


def test_where_there_is_no_preview_it_is_said_why(pane: PreviewPane, service: Asked) -> None:
    problem = Problem("distributed.nproc", "run.toml", 3, "there are 2 <b>GPUs</b>", "at most 2")
    service.tell(PreviewState(problems=(problem,)))
    said = _visible_text(pane)
    assert "No preview while there is a problem." in said
    assert "<b>GPUs" not in said, "the list of problems says it, once"
    service.tell(PreviewState(problems=(problem,) * 7))
    assert "No preview while there are 7 problems." in _visible_text(pane)
    service.tell(PreviewState())
    assert "Where every rank runs" in _visible_text(pane)


def test_the_machine_is_watched_while_the_pane_is_seen(pane: PreviewPane, service: Asked) -> None:
    assert service.watched == [True]
    pane.hide()
    assert service.watched == [True, False]


def _visible_text(pane: PreviewPane) -> str:
    return "\n".join(text.text() for text in pane.findChildren(QLabel) if text.isVisible())


def test_an_error_can_be_tried_again(qtbot: QtBot, pane: PreviewPane, service: Asked) -> None:
    service.tell(PreviewState(error=Refusal("the <b>drive</b> is gone")))
    assert pane.bar.text.text() == "✕ No preview: the <b>drive</b> is gone"
    assert pane.bar.text.textFormat() is Qt.TextFormat.PlainText
    qtbot.mouseClick(pane.bar.button, LEFT)
    assert service.calls == ["refresh"]


def test_notes_are_shown_where_they_are_wanted(qtbot: QtBot, pane: PreviewPane, service: Asked) -> None:
    state = good()
    assert state.preview is not None
    noted = dataclasses.replace(state.preview, notes=("one is so", "another is so"))
    service.tell(dataclasses.replace(state, preview=noted))
    assert pane.bar.text.text() in ("one is so", *(f"⚠ {text}" for text in noted.plan.warnings))
    assert not pane.bar.notes.isVisible()
    qtbot.mouseClick(pane.bar.notes_button, LEFT)
    assert "one is so\nanother is so" in pane.bar.notes.text()
    assert pane.bar.notes.isVisible()


def test_its_height_does_not_change_with_what_it_says(pane: PreviewPane, service: Asked) -> None:
    service.tell(good())
    before = pane.tabs.geometry()
    for state in (
        dataclasses.replace(good(), tracing="tracing the model: starting"),
        dataclasses.replace(good(), held=held_in(Path("/somewhere"))),
        dataclasses.replace(good(), cancelled=True),
    ):
        service.tell(state)
        assert pane.tabs.geometry() == before


def test_answers_where_something_is_wrong() -> None:
    made = with_memory(preview(2, 2), memory(0, 3, peak=90, verdict="does not fit"))
    uneven = DataPreview("batch plan", 10, 1, 1, made.data.samples, made.data.samples * [1, 1, 1, 2.0])  # type: ignore[union-attr]  # it has data
    traffic = Traffic((), 3 * 2**20, 8 * 2**30, 2, 0.025)
    fits, balanced, costs = answers(dataclasses.replace(made, data=uneven, traffic=traffic))
    assert (fits.value, fits.colour) == ("✕ does not fit, 112 %", "bad")
    assert (balanced.value, balanced.detail) == (
        "◐ 1.60 × mean",
        "the fullest rank reads 60 % more than the mean",
    )
    assert (costs.value, costs.detail) == (
        "8.0 GiB per step",
        "3.0 MiB per rank; ≥ 25 ms on links",
    )


def test_answers_where_nothing_is_known() -> None:
    made = preview(1, 2, known=Known(failure="memory is not predicted: it is odd"))
    fits, balanced, costs = answers(dataclasses.replace(made, data=None))
    assert (fits.value, fits.detail) == ("unknown", "memory is not predicted: it is odd")
    assert (balanced.value, costs.value) == ("unknown", "unknown")
    waiting = dataclasses.replace(made, data=None, known=Known(remarks=(UNTRACED,)))
    assert [answer.value for answer in answers(waiting)] == ["…"] * 3
    alone = dataclasses.replace(preview(1, 1), known=Known(remarks=(UNTRACED,)), traffic=None)
    assert [answer.value for answer in answers(alone)] == ["…", "✓ even", "nothing"]
    broken = dataclasses.replace(made, known=Known(broken="the recipe fails: no such module"))
    assert answers(broken)[0].value == "✕ fails"
