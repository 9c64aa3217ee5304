"""The dialog that frees space, as a person uses it."""

from pathlib import Path

from PySide6.QtWidgets import QMessageBox
from pytestqt.qtbot import QtBot

from gui.runs.conftest import Opened
from support.values.checkpoint_files import save
from support.values.run_homes import add_run, run_id
from torchdeck_app.runs.abilities import RunCommand
from torchdeck_app.runs.listing.space_dialog import SpaceDialog


def test_checkpoints_are_previewed_and_removed(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    layouts = [add_run(tmp_path, number) for number in (1, 2)]
    layout = layouts[1]
    for each in layouts:
        for step, loss in ((10, 1.0), (20, 3.0), (30, 2.0)):
            save(each.checkpoints, step, metrics={"validation_loss": loss})
    (layout.root / "large").write_bytes(bytes(3 << 20))
    place = opened(tmp_path)
    qtbot.waitUntil(lambda: len(place.table.model.entries) == 2)
    place.actions_of_runs[RunCommand.FREE_SPACE].trigger()
    (dialog,) = place.findChildren(SpaceDialog)
    qtbot.waitUntil(lambda: dialog.list.topLevelItemCount() == 2)
    first = dialog.list.topLevelItem(0)
    assert first is not None
    assert first.toolTip(0) == run_id(2)
    assert "2 checkpoints would be removed" in dialog.told.text(), "step 20 of each run"
    dialog.best.setValue(0)
    assert "4 checkpoints would be removed" in dialog.told.text()
    first.setSelected(True)
    assert "2 checkpoints would be removed" in dialog.told.text(), "of the selected run alone"
    dialog.remove.click()
    (question,) = dialog.findChildren(QMessageBox)
    assert question.text() == "Remove 2 checkpoints of 1 run for good?"
    next(button for button in question.buttons() if button.text() == "Remove").click()
    qtbot.waitUntil(lambda: {path.name for path in layout.checkpoints.glob("step*")} == {"step_00000030"})
    qtbot.waitUntil(lambda: "2 checkpoints would be removed" in dialog.told.text())
