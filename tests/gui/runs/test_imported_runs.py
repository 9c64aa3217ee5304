"""Runs that other tools recorded, in the window: listed, shown and compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from gui.runs.conftest import Opened
from torchdeck.use_cases.elsewhere.import_runs import import_runs
from torchdeck_app.runs.abilities import RunCommand
from torchdeck_app.runs.page.checkpoints_panel import CheckpointsView

STEPS = range(2, 21, 2)


@pytest.fixture
def ids(tmp_path: Path) -> dict[str, str]:
    """Import a run of Hugging Face and one of Lightning: program → id."""
    history = [{"step": step, "loss": 3.0 / step, "epoch": step / 10} for step in STEPS]
    saved = tmp_path / "old/hf/checkpoint-20"
    saved.mkdir(parents=True)
    state = {"global_step": 20, "max_steps": 20, "epoch": 2.0, "log_history": history}
    (saved / "trainer_state.json").write_text(json.dumps(state))
    (saved / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    table = tmp_path / "old/pl/lightning_logs/version_0"
    table.mkdir(parents=True)
    (table / "hparams.yaml").write_text("{}")
    rows = [f"{step},{2.0 / step},{4.0 / step}" for step in STEPS]
    (table / "metrics.csv").write_text("\n".join(["step,train_loss,val_loss", *rows]) + "\n")
    found = list(import_runs(tmp_path / "old", home=tmp_path / "home"))
    return {each.program: each.layout.root.name for each in found if each.layout is not None}


def test_an_imported_run_has_a_page(
    qtbot: QtBot, opened: Opened, tmp_path: Path, ids: dict[str, str]
) -> None:
    """Curve and loss in the list; its page has the facts, the checkpoint, and no controls."""
    place = opened(tmp_path / "home")
    qtbot.waitUntil(lambda: len(place.table.model.entries) == 2)
    qtbot.waitUntil(lambda: all(entry.progress is not None for entry in place.table.model.entries))
    losses = {entry.id: entry.progress.loss for entry in place.table.model.entries if entry.progress}
    assert losses == {ids["Hugging Face Trainer"]: 0.15, ids["Lightning"]: 0.1}
    assert all(entry.loss_curve for entry in place.table.model.entries)
    place.open_run(ids["Hugging Face Trainer"])
    qtbot.waitUntil(lambda: place.page is not None and place.page.header.state_word == "succeeded")
    page = place.page
    assert page is not None
    header = page.header
    assert "step 20 / 20  ·  epoch 2" in header._facts.text()
    assert header._facts.text().endswith("imported")
    assert header.doing_now == "imported from Hugging Face Trainer"
    for what in (RunCommand.STOP, RunCommand.STOP_NOW, RunCommand.RESUME, RunCommand.CLONE):
        assert not header.buttons[what].isVisible()
        assert not place.actions_of_runs[what].isEnabled()
    assert place.actions_of_runs[RunCommand.DELETE].isEnabled()
    (panel,) = page.findChildren(CheckpointsView)
    panel.entered()
    qtbot.waitUntil(lambda: panel.selected is not None)
    assert not panel.buttons["resume"].isEnabled()
    assert "Torchdeck did not start" in panel.buttons["resume"].toolTip()


def test_the_header_has_the_held_out_loss(
    qtbot: QtBot, opened: Opened, tmp_path: Path, ids: dict[str, str]
) -> None:
    """Whatever the program calls it; a run without one has the word alone."""
    place = opened(tmp_path / "home")

    def shown() -> str:
        return "" if place.page is None else place.page.header._loss_name.text()

    place.open_run(ids["Lightning"])
    qtbot.waitUntil(lambda: shown() == "loss\nvalidation 0.2000")
    place.open_run(ids["Hugging Face Trainer"])
    qtbot.waitUntil(lambda: shown() == "loss")


def test_imported_runs_of_two_programs_are_compared(
    qtbot: QtBot, opened: Opened, tmp_path: Path, ids: dict[str, str]
) -> None:
    """Their losses are in one plot; that they have no run files is no error."""
    place = opened(tmp_path / "home")
    qtbot.waitUntil(lambda: len(place.table.model.entries) == 2)
    place.table.list.selectAll()
    qtbot.waitUntil(lambda: place.shown.comparison is not None)
    comparison = place.shown.comparison
    assert comparison is not None
    values = {row[0]: row[1:] for row in comparison.values.texts()}
    assert sorted(values["Loss"]) == ["0.1000", "0.1500"]
    assert sorted(values["Validation loss"]) == ["0.2000", "–"]
    qtbot.waitUntil(lambda: comparison._tables != [])
    assert not comparison._said.isVisible()
    assert len(ids) == 2
